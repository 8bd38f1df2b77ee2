"""Results with profiles: of recorded runs, and of layers within loops."""

import json
from pathlib import Path

from inferometer_api.results.result import LayerProfile, ResultDocument, StepProfile
from inferometer_serving.profile.onnx_events import EventCost, profile_of
from support.results import a_result, a_run

_CPU = Path(__file__).parents[1] / "data/profiles/onnxruntime-1.31-squeezenet1_1.json"
_RUNS = 3


def a_profiled_result(profile: StepProfile) -> ResultDocument:
    """Return a result of one scenario with one step, which has this profile."""
    document = a_result()
    scenario = document.scenarios[-1]
    step = scenario.steps[0].model_copy(update={"profile": profile})
    profiled = scenario.model_copy(update={"kind": "profile", "steps": [step]})
    run = a_run([{"name": scenario.name, "profile": {"batchSizes": [1]}}])
    return document.model_copy(update={"scenarios": [profiled], "run": run})


def recorded_cpu_profile() -> StepProfile:
    """Return three runs of SqueezeNet 1.1 as ONNX Runtime recorded them on a CPU.

    The profiler's own time, here 1.5 us, is taken off the durations and not off the starts.
    """
    events = json.loads(_CPU.read_text())
    layers = profile_of(events, _RUNS, EventCost(event_ns=1500)).layers
    runs = sorted(
        (each for each in events if each["name"] == "model_run"), key=lambda each: int(each["ts"])
    )
    return StepProfile.model_validate(
        {
            "levels": ["Model", "Layer"],
            "modelNanoseconds": [int(each["dur"]) * 900 for each in runs[-_RUNS:]],
            "profiledNanoseconds": [int(each["dur"]) * 1000 for each in runs[-_RUNS:]],
            "layers": [each.to_json(with_tensors=False) for each in layers],
        }
    )


def a_layer(
    index: int, start_ns: int, took_ns: int, outer: int | None = None, operator: str = "Conv"
) -> LayerProfile:
    """Return a layer that was profiled once."""
    return LayerProfile(
        index=index,
        name=f"layer {index}",
        operator=operator,
        start_nanoseconds=start_ns,
        durations_nanoseconds=[took_ns],
        outer=outer,
    )


def a_layer_profile(*layers: LayerProfile, inference_ns: int = 0) -> StepProfile:
    """Return a profile of one run with these layers."""
    return StepProfile(
        levels=["Model", "Layer"], profiled_nanoseconds=[inference_ns], layers=list(layers)
    )
