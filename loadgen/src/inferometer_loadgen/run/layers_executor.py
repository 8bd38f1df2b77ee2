"""Executor of bounds and bricks: measures under load, then has the server time layers."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from pydantic import ValidationError

from inferometer_api.layers.timings import LayerTimings
from inferometer_api.results.result import ScenarioResult, StepLayers
from inferometer_api.spec.scenario import Scenario
from inferometer_loadgen.run.executor import CUTS_SHORT, RunContext, ScenarioRepeat, StepEnd
from inferometer_loadgen.run.load_executor import LoadExecutor, LoadRepeat, open_load_executor
from inferometer_loadgen.schedule.steps import End, StepPlan
from inferometer_loadgen.server.control_plane import ProfileRefusedError, ServerDescription

EXTENSION = "layers"
"""The server's extension of the protocol: POST /v2/models/NAME/layers."""


@asynccontextmanager
async def open_layers_executor(run: RunContext) -> AsyncIterator["LayersExecutor"]:
    """Open the executor of the load, next to whose figures the timings stand."""
    async with open_load_executor(run) as load:
        yield LayersExecutor(load)


class LayersExecutor:
    """Measures a step under load, then has the first server time layers; see Executor."""

    def __init__(self, load: LoadExecutor) -> None:
        self._load = load
        self._run: RunContext | None = None
        self._has_layers = False

    async def prepare(
        self,
        run: RunContext,
        descriptions: Sequence[ServerDescription],
        repeats: Sequence[ScenarioRepeat],
    ) -> Sequence[str]:
        """Prepare the load."""
        self._run = run
        self._has_layers = EXTENSION in descriptions[0].extensions
        return await self._load.prepare(run, descriptions, repeats)

    def start(self, repeat: ScenarioRepeat) -> "LayersRepeat":
        """Begin one repeat of a scenario; raises RuntimeError before `prepare`."""
        if self._run is None:
            raise RuntimeError("Layers were requested before that was prepared.")
        request = layers_request(repeat.scenario) if self._has_layers else None
        return LayersRepeat(self._load.start(repeat), self._run, request)


class LayersRepeat:
    """Measures one repeat and has layers timed after its step; see RepeatExecution."""

    def __init__(self, load: LoadRepeat, run: RunContext, request: dict[str, Any] | None) -> None:
        self._load = load
        self._run = run
        self._request = request
        self._layers: dict[str, StepLayers] = {}

    def next_step(self) -> StepPlan | None:
        """Return the next planned step."""
        return self._load.next_step()

    async def run_step(self, step: StepPlan) -> StepEnd:
        """Measure a step under load, then have layers timed."""
        end = await self._load.run_step(step)
        if end.why not in CUTS_SHORT:
            self._layers[step.label] = await self._timed()
        return end

    def judge(self, cut_short: End | None, *, server_restarted: bool) -> ScenarioResult | None:
        """Return the figures and the verdict of the load, with the timings."""
        result = self._load.judge(cut_short, server_restarted=server_restarted)
        if result is None:
            return None
        steps = [
            step.model_copy(update={"layers": self._layers.get(step.label)})
            for step in result.steps
        ]
        return result.model_copy(update={"steps": steps})

    async def _timed(self) -> StepLayers:
        if self._request is None:
            return StepLayers(
                unavailable="The server times no layers: only the server that Inferometer starts "
                "with the runtime OnnxRuntime or OpenVino does."
            )
        controls = self._run.servers.controls()
        try:
            return StepLayers(timings=LayerTimings.read(await controls[0].layers(self._request)))
        except ProfileRefusedError as error:
            return StepLayers(unavailable=str(error))
        except ValidationError as error:
            line = str(error).splitlines()[0]
            return StepLayers(unavailable=f"The server's timings cannot be read: {line}.")
        finally:
            for control in controls:
                await control.close()


def layers_request(scenario: Scenario) -> dict[str, Any]:
    """Return what a scenario requests from the server. Raises ValueError for other kinds."""
    if scenario.bound is not None:
        return {
            "kind": "Kernels" if scenario.bound.fill else "Model",
            "budgetSeconds": scenario.bound.budget_seconds,
        }
    if scenario.bricks is not None:
        return {
            "kind": "Calls",
            "models": list(scenario.bricks.models),
            "batchSize": scenario.bricks.batch_size,
            "budgetSeconds": scenario.bricks.budget_seconds,
        }
    raise ValueError(f"a scenario of kind {scenario.kind} has no layers to time")
