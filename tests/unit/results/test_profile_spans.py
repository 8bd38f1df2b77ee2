"""The last profiled inference of a step becomes spans and a timeline, layers within the model."""

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from google.protobuf.json_format import Parse
from hypothesis import example, given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from inferometer_api.results.result import KernelProfile, StepProfile
from inferometer_loadgen.tracing.spans import ReceivedSpan, read_json
from inferometer_results.export.chrome_trace import chrome_trace
from inferometer_results.export.otlp import otlp_message
from inferometer_results.export.profile_timeline import PlacedLayer, profile_timelines
from support.profiled_results import (
    a_layer,
    a_layer_profile,
    a_profiled_result,
    recorded_cpu_profile,
)
from support.recorded_kernels import recorded_profile
from support.results import a_result
from support.traced_results import a_traced_result

RECORDED = pytest.mark.parametrize("recorded", [recorded_cpu_profile, recorded_profile])


def _spans(profile: StepProfile) -> list[ReceivedSpan]:
    return read_json(otlp_message(a_profiled_result(profile)))


def _attributes(profile: StepProfile) -> dict[str, dict[str, Any]]:
    """Return the attributes of the spans by ID."""
    message = json.loads(otlp_message(a_profiled_result(profile)))
    return {
        span["spanId"]: {each["key"]: _value(each["value"]) for each in span["attributes"]}
        for span in message["resourceSpans"][0]["scopeSpans"][0]["spans"]
    }


def _value(value: dict[str, Any]) -> object:
    match value:
        case {"stringValue": text}:
            return text
        case {"intValue": number}:
            return int(number)
        case _:
            return [_value(each) for each in value["arrayValue"]["values"]]


def _slices(profile: StepProfile) -> list[dict[str, Any]]:
    events = json.loads(chrome_trace(a_profiled_result(profile)))["traceEvents"]
    return [each for each in events if each["ph"] == "X"]


def _placed(profile: StepProfile) -> list[PlacedLayer]:
    (timeline,) = profile_timelines(a_profiled_result(profile))
    return timeline.layers


def _extent(event: dict[str, Any]) -> tuple[int, int]:
    begin = round(event["ts"] * 1000)
    return begin, begin + round(event["dur"] * 1000)


@RECORDED
def test_every_span_lies_within_its_parent(recorded: Callable[[], StepProfile]) -> None:
    """One trace, whose root `compute` begins with the step; parents come first."""
    spans = _spans(recorded())
    root, *others = spans
    (scenario,) = a_profiled_result(recorded()).scenarios
    began = datetime.fromisoformat(scenario.steps[0].started_at)
    by_id = {each.span_id: each for each in spans}
    assert len(by_id) == len(spans)
    Parse(otlp_message(a_profiled_result(recorded())), ExportTraceServiceRequest())
    assert {each.trace_id for each in spans} == {root.trace_id}
    assert {each.service for each in spans} == {"inferometer-serving"}
    assert (root.name, root.parent_id, root.start_ns) == ("compute", "", began.timestamp() * 1e9)
    for each in others:
        parent = by_id[each.parent_id]
        assert parent.start_ns <= each.start_ns <= each.end_ns <= parent.end_ns


def test_layers_of_a_cpu_are_below_the_model() -> None:
    """Each starts when the engine says, and lasts as long as the last run says."""
    profile = recorded_cpu_profile()
    root, *spans = _spans(profile)
    assert root.end_ns - root.start_ns == profile.profiled_nanoseconds[-1]
    assert len(spans) == len(profile.layers)
    for span, layer in zip(spans, profile.layers, strict=True):
        assert span.parent_id == root.span_id
        assert span.name == layer.name
        assert span.start_ns - root.start_ns == layer.start_nanoseconds
        assert span.end_ns - span.start_ns == layer.durations_nanoseconds[-1]


def test_kernels_of_a_gpu_are_below_their_layers() -> None:
    """Each has a launch and an execution below its layer, copies of inputs below the model."""
    profile = recorded_profile()
    spans, facts = _spans(profile), _attributes(profile)
    layer_of = {
        each.span_id: facts[each.span_id]["inferometer.layer.index"]
        for each in spans
        if "inferometer.layer.index" in facts[each.span_id]
    }
    assert sorted(layer_of.values()) == [each.index for each in profile.layers]
    layer_of[spans[0].span_id] = None
    for begin, name in ((0, "launch "), (1, "")):
        found = {
            facts[each.span_id]["inferometer.kernel.index"]: each
            for each in spans[1 + len(profile.layers) + begin :: 2]
        }
        assert found.keys() == {kernel.index for kernel in profile.kernels}
        for kernel in profile.kernels:
            assert found[kernel.index].name == f"{name}{kernel.name}"
            assert layer_of[found[kernel.index].parent_id] == kernel.layer
    layers = {each.index: each for each in profile.layers}
    names = {each.span_id: each.name for each in spans}
    for span_id, index in layer_of.items():
        assert index is None or names[span_id] == layers[index].name


def test_executions_are_linked_to_their_launches() -> None:
    """Each execution has a link to the span of the launch before it."""
    message = json.loads(otlp_message(a_profiled_result(recorded_profile())))
    spans = message["resourceSpans"][0]["scopeSpans"][0]["spans"]
    names = {each["spanId"]: each["name"] for each in spans}
    linked = [each for each in spans if each.get("links")]
    assert len(linked) == len(recorded_profile().kernels)
    for each in linked:
        (link,) = each["links"]
        assert link["traceId"] == each["traceId"]
        assert names[link["spanId"]] == f"launch {each['name']}"


def test_attributes_say_what_ran() -> None:
    """The root has scenario, step and engine; a layer its operator, provider, type and shape."""
    profile = recorded_cpu_profile()
    root, *layers = _attributes(profile).values()
    (scenario,) = a_profiled_result(profile).scenarios
    assert root["inferometer.scenario.name"] == scenario.name
    assert root["inferometer.step.label"] == scenario.steps[0].label
    assert root["inferometer.batch.size"] == scenario.steps[0].batch_size
    assert root["inferometer.model.name"] == "resnet50"
    assert root["inferometer.engine.providers"] == "CPUExecutionProvider"
    for facts, layer in zip(layers, profile.layers, strict=True):
        assert facts["inferometer.layer.index"] == layer.index
        assert facts["inferometer.layer.operator"] == layer.operator
        assert facts["inferometer.layer.provider"] == layer.provider
        assert facts["inferometer.layer.datatype"] == layer.datatype
        assert facts["inferometer.layer.shape"] == layer.shape
        assert "inferometer.layer.kernel" not in facts


def test_ids_are_those_of_the_run_and_the_step() -> None:
    """The same result has the same IDs again; another run or step has others."""
    document = a_profiled_result(recorded_profile())
    (scenario,) = document.scenarios
    step = scenario.steps[0]
    two = [step, step.model_copy(update={"label": "batch 2", "batch_size": 2})]
    both = document.model_copy(update={"scenarios": [scenario.model_copy(update={"steps": two})]})
    other = document.model_copy(update={"run_id": "another"})
    assert otlp_message(document) == otlp_message(document)
    spans = read_json(otlp_message(both)) + read_json(otlp_message(other))
    assert len({each.trace_id for each in spans}) == 3
    assert len({each.span_id for each in spans}) == len(spans)


def test_traced_queries_and_profiles_are_in_one_message_and_one_timeline() -> None:
    """The spans of both are in the resource of the server; their processes differ."""
    traced, profiled = a_traced_result(), a_profiled_result(recorded_cpu_profile())
    scenarios = [*traced.scenarios, *profiled.scenarios]
    both = traced.model_copy(update={"scenarios": scenarios})
    spans = read_json(otlp_message(both))
    own = {each.trace_id for each in read_json(otlp_message(traced))}
    assert {each.trace_id for each in spans} > own
    assert [each for each in spans if each.trace_id in own] == read_json(otlp_message(traced))
    resources = json.loads(otlp_message(both))["resourceSpans"]
    assert len(resources) == 2
    names = [
        (each["pid"], each["args"]["name"])
        for each in json.loads(chrome_trace(both))["traceEvents"]
        if each["name"] == "process_name"
    ]
    assert [pid for pid, _ in names] == [1, 2, 3]


def test_a_profile_of_the_model_alone_is_one_span() -> None:
    """Without layers the last inference without a profiler; without any inference nothing."""
    (span,) = _spans(StepProfile(levels=["Model"], model_nanoseconds=[5, 7]))
    assert (span.name, span.end_ns - span.start_ns) == ("compute", 7)
    assert _spans(StepProfile(unavailable={"Model": "It has none."})) == []
    assert _slices(StepProfile()) == []
    assert list(profile_timelines(a_result())) == []


@RECORDED
def test_the_timeline_shows_layers_below_the_inference(
    recorded: Callable[[], StepProfile],
) -> None:
    """One track has a slice of the inference from 0, and within it each layer, none overlapping."""
    profile = recorded()
    model, *layers = (each for each in _slices(profile) if each["tid"] == 1)
    assert model["name"] == "Inference"
    begin, end = _extent(model)
    last = (profile.kernel_profiled_nanoseconds or profile.profiled_nanoseconds)[-1]
    assert (begin, end) == (0, last)
    assert [each["name"] for each in layers] == [each.name for each in profile.layers]
    extents = [_extent(each) for each in layers]
    assert extents == sorted(extents)
    free = begin
    for layer_begin, layer_end in extents:
        assert free <= layer_begin <= layer_end <= end
        free = layer_end


def test_the_timeline_has_launches_layers_and_streams() -> None:
    """Each kernel is a launch and an execution with an arrow between them."""
    document = a_profiled_result(recorded_profile())
    events = json.loads(chrome_trace(document))["traceEvents"]
    names = [each["args"]["name"] for each in events if each["name"] == "thread_name"]
    assert names[:2] == ["Layers, by their launches", "Launches"]
    assert all(name.startswith("GPU, stream") for name in names[2:])
    assert len(names) > 2
    begins = {each["id"]: each for each in events if each["ph"] == "s"}
    ends = {each["id"]: each for each in events if each["ph"] == "f"}
    assert begins.keys() == ends.keys()
    assert len(begins) == 103
    assert all(begins[key]["ts"] < ends[key]["ts"] for key in begins)
    layers = {kernel.layer for kernel in recorded_profile().kernels} - {None}
    assert len(_slices(recorded_profile())) == 1 + 2 * 103 + len(layers)


def test_the_timeline_of_serialized_layers_has_no_kernels() -> None:
    """Without kernels the layers of a GPU are as the engine timed them."""
    profile = recorded_profile().model_copy(update={"kernels": [], "gpu": None})
    slices = _slices(profile)
    assert len(slices) == 1 + len(profile.layers)
    for event, layer in zip(slices[1:], profile.layers, strict=True):
        assert _extent(event)[0] == layer.start_nanoseconds


def test_the_inference_lasts_until_its_layers_end() -> None:
    """Means of other runs can sum to more than the last run took: as OpenVINO reports them."""
    slices = _slices(a_layer_profile(a_layer(0, 0, 60), a_layer(1, 60, 60), inference_ns=100))
    assert [_extent(each) for each in slices] == [(0, 120), (0, 60), (60, 120)]


def test_layers_of_a_branch_stay_where_they_ran() -> None:
    """Each lies within its branch, at its own start."""
    profile = a_layer_profile(
        a_layer(0, 10, 100, operator="If"),
        a_layer(1, 30, 20, outer=0),
        a_layer(2, 60, 40, outer=0),
        inference_ns=200,
    )
    found = [(each.outer, each.start_ns, each.end_ns) for each in _placed(profile)]
    assert found == [(None, 10, 110), (0, 30, 50), (0, 60, 100)]
    root, branch, *inner = _spans(profile)
    assert branch.parent_id == root.span_id
    assert {each.parent_id for each in inner} == {branch.span_id}


def test_layers_of_a_loop_follow_one_another_within_it() -> None:
    """Their durations are sums over all rounds, and do not fit where the last round began."""
    profile = a_layer_profile(
        a_layer(0, 10, 100, operator="Loop"),
        a_layer(1, 70, 45, outer=0),
        a_layer(2, 90, 45, outer=0),
        inference_ns=200,
    )
    assert [(each.start_ns, each.end_ns) for each in _placed(profile)] == [
        (10, 110),
        (20, 65),
        (65, 110),
    ]


def test_layers_that_run_in_parallel_have_tracks_of_their_own() -> None:
    """A layer within the time of another one is not below it, and what it contains goes along."""
    profile = a_layer_profile(
        a_layer(0, 0, 100),
        a_layer(1, 20, 50, operator="If"),
        a_layer(2, 30, 10, outer=1),
        a_layer(3, 100, 10),
        inference_ns=200,
    )
    model, first, second, inner, third = (each["tid"] for each in _slices(profile))
    assert model == first == third
    assert second == inner != first


def test_layers_of_a_loop_on_a_gpu_are_there_once_a_round() -> None:
    """Rounds follow each other within the loop, which lasts from the first launch to the last."""
    layers = [
        a_layer(0, 0, 90, operator="Loop"),
        a_layer(1, 0, 40, outer=0),
        a_layer(2, 0, 40, outer=0),
        a_layer(3, 90, 10, operator="Reshape"),
    ]
    kernels = [
        KernelProfile(
            index=at,
            kind="Kernel",
            name="gemm",
            layer=1 + at % 2,
            stream=7,
            launch_start_nanoseconds=20 * at,
            launch_nanoseconds=10,
            start_nanoseconds=20 * at + 100,
            durations_nanoseconds=[15],
        )
        for at in range(4)
    ]
    profile = a_layer_profile(*layers).model_copy(update={"kernels": kernels})
    found = [(e.layer.index, e.outer, e.start_ns, e.end_ns) for e in _placed(profile)]
    assert found == [(0, None, 0, 70), *((1 + n % 2, 0, 20 * n, 20 * n + 10) for n in range(4))]
    root, loop, *_ = _spans(profile)
    assert loop.end_ns - loop.start_ns == 175
    assert _attributes(profile)[root.span_id]["inferometer.profile.layers_without_launches"] == 1


@example([(0, 100, None), (0, 50, 0), (10, 45, 0)])
@given(
    st.lists(
        st.tuples(st.integers(0, 200), st.integers(0, 60), st.none() | st.integers(0, 8)),
        min_size=1,
        max_size=9,
    )
)
def test_whatever_a_document_says_slices_of_a_track_nest(
    drawn: list[tuple[int, int, int | None]],
) -> None:
    """Also if layers overlap, lie outside of their loop, or name one that is not there."""
    layers = [a_layer(at, *each) for at, each in enumerate(drawn)]
    slices = _slices(a_layer_profile(*layers, inference_ns=1))
    assert len(slices) == 1 + len(drawn)
    begin, end = _extent(slices[0])
    tracks: dict[int, list[tuple[int, int]]] = {}
    for event in slices:
        tracks.setdefault(event["tid"], []).append(_extent(event))
    for extents in tracks.values():
        open_until = [end]
        for first, last in sorted(extents, key=lambda each: (each[0], -each[1])):
            assert begin <= first <= last <= end
            while open_until[-1] <= first and len(open_until) > 1:
                open_until.pop()
            assert last <= open_until[-1]
            open_until.append(last)
