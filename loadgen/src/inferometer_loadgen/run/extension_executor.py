"""Executor of server extensions: measures each step under load, then has the server do more."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal

from inferometer_api.results.result import ScenarioResult, StepLayers, StepProfile
from inferometer_loadgen.run.executor import CUTS_SHORT, RunContext, ScenarioRepeat, StepEnd
from inferometer_loadgen.run.load_executor import LoadExecutor, LoadRepeat, open_load_executor
from inferometer_loadgen.schedule.steps import End, StepPlan
from inferometer_loadgen.server.control_plane import ProfileRefusedError, ServerDescription
from inferometer_loadgen.server.servers import Servers

Found = StepProfile | StepLayers
"""What an extension adds to the result of a step."""


@dataclass(frozen=True, slots=True)
class ServerExtension:
    """What a server measures by itself after each step, by an extension of the protocol."""

    name: Literal["profile", "layers"]
    """Its name: POST /v2/models/NAME/`name`. A step's result has a member of the same name."""
    missing: str
    """Why there is nothing if a server lacks the extension, as a sentence."""
    request: Callable[[ScenarioRepeat, StepPlan], dict[str, Any]]
    read: Callable[[Any, ScenarioRepeat], Found]
    """Reads an answer. Raises ProfileRefusedError."""
    unavailable: Callable[[str, ScenarioRepeat], Found]
    """What a step gets that has nothing, with the reason."""

    @asynccontextmanager
    async def open(self, run: RunContext) -> AsyncIterator["ExtensionExecutor"]:
        """Open the executor of the load, next to whose figures the extension's stand."""
        async with open_load_executor(run) as load:
            yield ExtensionExecutor(self, load)


class ExtensionExecutor:
    """Measures each step under load, then requests the extension; see Executor."""

    def __init__(self, extension: ServerExtension, load: LoadExecutor) -> None:
        self._extension = extension
        self._load = load
        self._servers: Servers | None = None
        self._is_offered = False

    async def prepare(
        self,
        run: RunContext,
        descriptions: Sequence[ServerDescription],
        repeats: Sequence[ScenarioRepeat],
    ) -> Sequence[str]:
        """Prepare the load."""
        self._servers = run.servers
        self._is_offered = self._extension.name in descriptions[0].extensions
        return await self._load.prepare(run, descriptions, repeats)

    def start(self, repeat: ScenarioRepeat) -> "ExtensionRepeat":
        """Begin one repeat of a scenario; raises RuntimeError before `prepare`."""
        if self._servers is None:
            raise RuntimeError(f"The extension '{self._extension.name}' was not prepared.")
        servers = self._servers if self._is_offered else None
        return ExtensionRepeat(self._extension, self._load.start(repeat), repeat, servers)


class ExtensionRepeat:
    """Measures one repeat and requests the extension after each step; see RepeatExecution."""

    def __init__(
        self,
        extension: ServerExtension,
        load: LoadRepeat,
        repeat: ScenarioRepeat,
        servers: Servers | None,
    ) -> None:
        """Take the servers, None if they lack the extension."""
        self._extension = extension
        self._load = load
        self._repeat = repeat
        self._servers = servers
        self._found: dict[str, Found] = {}

    def next_step(self) -> StepPlan | None:
        """Return the next planned step."""
        return self._load.next_step()

    async def run_step(self, step: StepPlan) -> StepEnd:
        """Measure a step under load, then request the extension."""
        end = await self._load.run_step(step)
        if end.why not in CUTS_SHORT:
            try:
                self._found[step.label] = await self._request(step)
            except ProfileRefusedError as error:
                found = self._extension.unavailable(str(error), self._repeat)
                self._found[step.label] = found
        return end

    def judge(self, cut_short: End | None, *, server_restarted: bool) -> ScenarioResult | None:
        """Return the figures and the verdict of the load, with what the extension found."""
        result = self._load.judge(cut_short, server_restarted=server_restarted)
        if result is None:
            return None
        name = self._extension.name
        steps = [
            step.model_copy(update={name: self._found.get(step.label)}) for step in result.steps
        ]
        return result.model_copy(update={"steps": steps})

    async def _request(self, step: StepPlan) -> Found:
        extension = self._extension
        if self._servers is None:
            raise ProfileRefusedError(extension.missing)
        controls = self._servers.controls()
        try:
            request = extension.request(self._repeat, step)
            return extension.read(
                await controls[0].measurement(extension.name, request), self._repeat
            )
        finally:
            for control in controls:
                await control.close()
