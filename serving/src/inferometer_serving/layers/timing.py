"""Times bricks and whole models in turn, round by round, on this machine."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from statistics import median

import numpy as np
import onnxruntime  # type: ignore[import-untyped]  # ships no types
from onnx import TensorProto, helper

from inferometer_api.layers.bricks import (
    Brick,
    BrickSuite,
    BrickTimings,
    Timing,
)
from inferometer_api.layers.graph import LayerTensor
from inferometer_models.graph_file import GraphFile
from inferometer_serving.layers.machine import machine_state
from inferometer_serving.layers.optimised import (
    FOLDER_OF_WEIGHTS,
    graph_inputs,
    random_array,
    session_options,
    with_fixed_shapes,
)
from inferometer_serving.layers.runnable import (
    ANY_TENSOR,
    Runnable,
    bind,
    open_brick,
    open_chain,
)

_GROUP_BYTES = 2 << 30
"""Sessions are open at the same time as long as their tensors take no more than this."""
_RUNS_NS = 3_000_000
"""How long the runs of one round should last, at least..."""
_FEWEST_RUNS, _MOST_RUNS = 2, 20
"""...within these numbers."""
_FEWEST_ROUNDS = 3
_NARROW = 0.03
"""A brick needs no more rounds once the middle ones differ by less than this."""
_CHAIN = 33
_FEWEST_MODEL_ROUNDS = 10


@dataclass(slots=True)
class _Item:
    """Something to time."""

    name: str
    bytes: int
    open: Callable[[], Runnable]
    rounds_wanted: int
    is_model: bool = False
    session_ns: int = 0
    runs: int = 0
    cold_ns: list[int] = field(default_factory=list)
    """The first run of each round."""
    shortest_ns: list[int] = field(default_factory=list)
    """The shortest run of each round."""

    @property
    def is_done(self) -> bool:
        """Whether it needs no more rounds."""
        if self.is_model or len(self.shortest_ns) < _FEWEST_ROUNDS:
            return len(self.shortest_ns) >= self.rounds_wanted
        middle = sorted(self.shortest_ns)
        cut = len(middle) // 4
        middle = middle[cut : len(middle) - cut]
        is_narrow = middle[-1] - middle[0] <= _NARROW * median(middle)
        return is_narrow or len(self.shortest_ns) >= self.rounds_wanted

    def timing(self) -> Timing:
        """Return what its rounds say."""
        lower, upper = np.percentile(self.shortest_ns, (25, 75))
        return Timing(
            nanoseconds=round(median(self.shortest_ns)),
            lower_quartile_nanoseconds=round(lower),
            upper_quartile_nanoseconds=round(upper),
            rounds=len(self.shortest_ns),
            runs=self.runs,
            cold_nanoseconds=round(median(self.cold_ns)),
            session_nanoseconds=self.session_ns,
        )


@dataclass(frozen=True, slots=True)
class TimingOptions:
    """How bricks are timed."""

    batch_size: int
    threads: int
    rounds: int
    """The most rounds of a brick."""
    cpu: str
    """The name of the CPU, for the record."""


def time_bricks(
    suite: BrickSuite,
    models: Sequence[GraphFile],
    options: TimingOptions,
    report: Callable[[int, int], None],
) -> BrickTimings:
    """Return how long each brick takes, and each model for reference.

    The items of a group take turns, so that whatever disturbs the machine meets all of them, and
    so that an item's weights leave the caches between its turns. A brick that ONNX Runtime refuses
    is named with the reason. `report` gets how many items are done, and of how many.
    """
    began = time.monotonic()
    items = [_brick_item(suite, key, brick, options) for key, brick in suite.bricks.items()]
    items += [_model_item(graph, options) for graph in models]
    failed: dict[str, str] = {}
    calls: list[int] = []
    nodes: list[float] = []
    for group in _groups(items):
        single, chain = (_chain_item(length, options) for length in (1, _CHAIN))

        def report_some() -> None:
            report(sum(each.is_done for each in items), len(items))

        _time_group([single, *group, chain], failed, report_some)
        calls.append(single.timing().nanoseconds)
        nodes.append((chain.timing().nanoseconds - calls[-1]) / (_CHAIN - 1))
    node_ns = max(median(nodes), 0.0) if nodes else 0.0
    measured = [each for each in items if each.shortest_ns]
    return BrickTimings(
        machine=machine_state(options.cpu, options.threads),
        run_nanoseconds=max(round(median(calls) - node_ns), 0) if calls else 0,
        node_nanoseconds=round(node_ns),
        seconds=time.monotonic() - began,
        bricks={each.name: each.timing() for each in measured if not each.is_model},
        failed=failed,
        models={each.name: each.timing() for each in measured if each.is_model},
    )


def _time_group(items: list[_Item], failed: dict[str, str], report: Callable[[], None]) -> None:
    opened: list[tuple[_Item, Runnable]] = []
    for item in items:
        began = time.perf_counter_ns()
        try:
            runnable = item.open()
            runnable.run()
        except Exception as error:  # noqa: BLE001 - whatever the engine raises is the answer
            failed[item.name] = " ".join(str(error).split())[:300]
            continue
        item.session_ns = time.perf_counter_ns() - began
        item.runs = 1
        opened.append((item, runnable))
    active = opened
    while active:
        for item, runnable in active:
            _time_round(item, runnable)
        active = [each for each in active if not each[0].is_done]
        report()


def _time_round(item: _Item, runnable: Runnable) -> None:
    """Run an item once with warm inputs and cold weights, as in its model, and then a few times."""
    for array in runnable.inputs:
        array.max()
    cold_ns = _run_ns(runnable)
    item.cold_ns.append(cold_ns)
    wanted = min(max(_RUNS_NS // max(cold_ns, 1), _FEWEST_RUNS), _MOST_RUNS)
    item.shortest_ns.append(min(_run_ns(runnable) for _ in range(wanted)))
    item.runs += wanted + 1


def _run_ns(runnable: Runnable) -> int:
    began = time.perf_counter_ns()
    runnable.run()
    return time.perf_counter_ns() - began


def _groups(items: Sequence[_Item]) -> Iterator[list[_Item]]:
    group: list[_Item] = []
    taken = 0
    for item in items:
        if group and taken + item.bytes > _GROUP_BYTES:
            yield group
            group, taken = [], 0
        group.append(item)
        taken += item.bytes
    if group:
        yield group


def _brick_item(suite: BrickSuite, key: str, brick: Brick, options: TimingOptions) -> _Item:
    tensors = [
        tensor
        for each in brick.layers
        for tensor in (*suite.layers[each].inputs, *suite.layers[each].outputs)
    ]
    return _Item(
        name=key,
        bytes=2 * sum(map(_bytes, tensors)),  # weights are packed once more
        open=lambda: open_brick(suite, brick, options.threads),
        rounds_wanted=options.rounds,
    )


def _bytes(tensor: LayerTensor) -> int:
    with contextlib.suppress(ValueError, KeyError):
        dtype = helper.tensor_dtype_to_np_dtype(TensorProto.DataType.Value(tensor.datatype))
        return prod(tensor.shape) * dtype.itemsize
    return 0


def _chain_item(length: int, options: TimingOptions) -> _Item:
    return _Item(
        name=f"{length} layers that compute nothing",
        bytes=0,
        open=lambda: open_chain(length, options.threads),
        rounds_wanted=max(options.rounds, _FEWEST_MODEL_ROUNDS),
        is_model=True,
    )


def _model_item(graph: GraphFile, options: TimingOptions) -> _Item:
    return _Item(
        name=graph.path.stem,
        bytes=2 * graph.size_bytes,
        open=lambda: _open_model(graph, options),
        rounds_wanted=max(options.rounds, _FEWEST_MODEL_ROUNDS),
        is_model=True,
    )


def _open_model(graph: GraphFile, options: TimingOptions) -> Runnable:
    session = session_options(options.threads, optimise=True)
    session.add_session_config_entry(FOLDER_OF_WEIGHTS, str(graph.path.parent.resolve()))
    model = with_fixed_shapes(graph, options.batch_size)
    opened = onnxruntime.InferenceSession(
        model.SerializeToString(), session, providers=["CPUExecutionProvider"]
    )
    generator = np.random.default_rng(0)
    feeds = {name: random_array(generator, each) for name, each in graph_inputs(model).items()}
    return bind(opened, feeds, {each.name: ANY_TENSOR for each in opened.get_outputs()})
