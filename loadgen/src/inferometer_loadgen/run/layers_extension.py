"""The extension `layers`: the server times layers, for bounds and bricks."""

from typing import Any

from pydantic import ValidationError

from inferometer_api.layers.timings import LayerTimings
from inferometer_api.results.reading import UnreadableDocumentError, version_notice
from inferometer_api.results.result import StepLayers
from inferometer_api.runtimes.table import runtimes_that
from inferometer_api.spec.scenario import Scenario
from inferometer_loadgen.run.executor import ScenarioRepeat
from inferometer_loadgen.run.extension_executor import ServerExtension
from inferometer_loadgen.server.control_plane import ProfileRefusedError


def layers_request(scenario: Scenario) -> dict[str, Any]:
    """Return what a scenario requests from the server. Raises ValueError for other kinds."""
    if scenario.bound is not None:
        return {
            "kind": "Kernels" if scenario.bound.fill else "Model",
            "budgetSeconds": scenario.bound.budget_seconds,
            **({"advise": True} if scenario.bound.advise else {}),
        }
    if scenario.bricks is not None:
        return {
            "kind": "Calls",
            "models": list(scenario.bricks.models),
            "batchSize": scenario.bricks.batch_size,
            "budgetSeconds": scenario.bricks.budget_seconds,
        }
    raise ValueError(f"a scenario of kind {scenario.kind} has no layers to time")


def _read(answer: Any, _: ScenarioRepeat) -> StepLayers:
    try:
        timings = LayerTimings.read(answer)
        version_notice(timings, "The server's answer")
    except UnreadableDocumentError as error:
        raise ProfileRefusedError(str(error)) from error
    except ValidationError as error:
        line = str(error).splitlines()[0]
        raise ProfileRefusedError(f"The server's timings cannot be read: {line}.") from error
    return StepLayers(timings=timings)


LAYERS = ServerExtension(
    name="layers",
    missing="The server times no layers: only the server that Inferometer starts with the "
    f"runtime {' or '.join(runtimes_that(lambda each: each.times_layers))} does.",
    request=lambda repeat, _: layers_request(repeat.scenario),
    read=_read,
    unavailable=lambda why, _: StepLayers(unavailable=why),
)
