"""The events of ONNX Runtime's session profile, turned into layers.

Its times are whole microseconds. Control flow operators contain the nodes of their subgraphs.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from inferometer_api.wording import counted
from inferometer_serving.profile.layer_times import EngineProfile, LayerTimes

CONTROL_FLOW = frozenset({"If", "Loop", "Scan", "SequenceMap"})
_SUFFIX = "_kernel_time"
_KERNELS_MISSING = (
    "ONNX Runtime does not name the kernels of its CPU provider; those of a GPU come by CUPTI."
)


@dataclass(frozen=True, slots=True)
class RunEvents:
    """The events of one run; times are in us from the start of the profile."""

    start_us: int
    end_us: int
    nodes: Sequence[Mapping[str, Any]]
    """In the order of their start, those that contain others first."""


@dataclass(slots=True)
class _Node:
    """One node, with what its events so far say."""

    arguments: Mapping[str, Any]
    outer: "tuple[str, str] | None"
    start_us: int = 0
    durations_us: dict[int, int] = field(default_factory=dict)
    """By the number of the run: a node within a loop has several events in one."""
    events: dict[int, int] = field(default_factory=dict)
    """How many it has in each run."""


@dataclass(frozen=True, slots=True)
class EventCost:
    """The profiler's own time within the event of a layer, whose tensors' shapes it writes down."""

    event_ns: float = 0.0
    tensor_ns: float = 0.0
    """In addition, for each input and output."""
    axis_ns: float = 0.0
    """In addition, for each axis of these."""
    between_ns: float = 0.0
    """After each event, before the next one: within a loop or branch, a part of its time."""

    def of(self, arguments: Mapping[str, Any]) -> int:
        """Return the ns of an event, by its arguments."""
        tensors = [
            shape
            for name in ("input_type_shape", "output_type_shape")
            for _, shape in _tensors(arguments.get(name) or [])
        ]
        axes = sum(map(len, tensors))
        return round(self.event_ns + len(tensors) * self.tensor_ns + axes * self.axis_ns)


NO_COST = EventCost()


def profile_of(
    events: Sequence[Mapping[str, Any]], runs: int, cost: EventCost = NO_COST
) -> EngineProfile:
    """Return the layers of the last `runs` runs, each without the profiler's own time in its event.

    Raises ValueError if the profile has fewer: it was cut off.
    """
    nodes: dict[tuple[str, str], _Node] = {}
    for number, each in enumerate(events_by_run(events, runs)):
        _add_run(nodes, each.nodes, number, each.start_us)
    return _composed(nodes, runs, cost)


def events_by_run(events: Sequence[Mapping[str, Any]], runs: int) -> Iterator[RunEvents]:
    """Yield the events of the last `runs` runs. Raises ValueError if the profile has fewer."""
    spans = sorted(
        (each for each in events if each.get("name") == "model_run" and "dur" in each),
        key=lambda each: int(each["ts"]),
    )[-runs:]
    if len(spans) < runs:
        raise ValueError(f"it has {len(spans)} of {runs} runs")
    ordered = sorted(
        (each for each in events if str(each.get("name", "")).endswith(_SUFFIX)),
        key=lambda each: (int(each["ts"]), -int(each["dur"])),
    )
    at = 0
    for span in spans:
        begin, end = int(span["ts"]), int(span["ts"]) + int(span["dur"])
        while at < len(ordered) and int(ordered[at]["ts"]) < begin:
            at += 1
        first = at
        while at < len(ordered) and int(ordered[at]["ts"]) <= end:
            at += 1
        yield RunEvents(begin, end, ordered[first:at])


def layer_key(event: Mapping[str, Any]) -> tuple[str, str]:
    """Return what the events of one layer have in common: the index of the node and its name."""
    return str(event["args"].get("node_index", "")), str(event["name"]).removesuffix(_SUFFIX)


def _add_run(
    nodes: dict[tuple[str, str], _Node], events: Iterable[Mapping[str, Any]], run: int, begin: int
) -> None:
    open_outers: list[tuple[int, tuple[str, str]]] = []
    for event in events:
        arguments = event["args"]
        key = layer_key(event)
        start, end = int(event["ts"]), int(event["ts"]) + int(event["dur"])
        open_outers = [each for each in open_outers if each[0] >= end and each[0] > start]
        outer = open_outers[-1][1] if open_outers else None
        node = nodes.setdefault(key, _Node(arguments, outer))
        node.start_us = start - begin
        node.events[run] = node.events.get(run, 0) + 1
        node.durations_us[run] = node.durations_us.get(run, 0) + end - start
        if arguments.get("op_name") in CONTROL_FLOW:
            open_outers.append((end, key))


def _composed(nodes: Mapping[tuple[str, str], _Node], runs: int, cost: EventCost) -> EngineProfile:
    index = {key: at for at, key in enumerate(nodes)}
    times_ns = _own_times(nodes, runs, cost)
    layers = tuple(
        _layer(
            index[key],
            key[1],
            node,
            None if node.outer is None else index[node.outer],
            times_ns[key],
        )
        for key, node in nodes.items()
    )
    inner = sum(layer.outer is not None for layer in layers)
    note = (
        f"{counted(inner, 'layer')} within loops or branches: their time is part of these. So is "
        "what the profiler takes for each turn, which makes loops of small layers look slower than "
        "they are."
    )
    return EngineProfile(layers, (note,) if inner else (), _KERNELS_MISSING)


def _own_times(
    nodes: Mapping[tuple[str, str], _Node], runs: int, cost: EventCost
) -> dict[tuple[str, str], tuple[int, ...]]:
    """Return the times of the nodes by run, without the profiler's.

    What it takes for nodes within a loop or branch is a part of the time of that. No loop takes
    less than the nodes in it.
    """
    profiler_ns = {key: [0] * runs for key in nodes}
    inner_ns = {key: [0] * runs for key in nodes}
    found: dict[tuple[str, str], tuple[int, ...]] = {}
    for key, node in reversed(list(nodes.items())):
        cost_ns = cost.of(node.arguments)
        times = []
        for run in range(runs):
            shown_ns, events = node.durations_us.get(run, 0) * 1000, node.events.get(run, 0)
            own_ns = shown_ns - events * cost_ns - profiler_ns[key][run]
            times.append(max(own_ns, inner_ns[key][run]))
            if node.outer is not None:
                between_ns = round(events * cost.between_ns)
                profiler_ns[node.outer][run] += shown_ns - times[-1] + between_ns
                inner_ns[node.outer][run] += times[-1]
        found[key] = tuple(times)
    return found


def _layer(
    index: int, name: str, node: _Node, outer: int | None, durations_ns: tuple[int, ...]
) -> LayerTimes:
    arguments = node.arguments
    outputs = _tensors(arguments.get("output_type_shape") or [])
    datatype, shape = outputs[0] if outputs else ("", ())
    size = str(arguments.get("output_size", ""))
    return LayerTimes(
        index=index,
        name=name,
        operator=str(arguments.get("op_name", "")),
        shape=shape,
        datatype=datatype,
        provider=str(arguments.get("provider", "")),
        kernel="",
        output_bytes=int(size) if size.isdecimal() else None,
        start_ns=node.start_us * 1000,
        durations_ns=durations_ns,
        outer=outer,
        inputs=_tensors(arguments.get("input_type_shape") or []),
        outputs=outputs,
    )


def _tensors(
    listed: Sequence[Mapping[str, Sequence[int]]],
) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return tuple((datatype, tuple(shape)) for each in listed for datatype, shape in each.items())
