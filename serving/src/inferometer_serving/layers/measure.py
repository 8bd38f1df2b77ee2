"""Measurements of layers: bricks, kernels and whole models, composed into one document."""

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from math import inf, prod
from typing import Any

import numpy as np
import onnxruntime  # type: ignore[import-untyped]  # ships no types
from onnx import TensorProto, helper

from inferometer_api.layers.bricks import Brick, BrickSuite
from inferometer_api.layers.graph import LayerTensor
from inferometer_api.layers.timings import (
    KernelTiming,
    LayerFailure,
    LayerTimings,
    VariantTiming,
)
from inferometer_api.layers.variants import ModelVariant
from inferometer_models.errors import ModelRefusedError
from inferometer_models.graph_file import GraphFile
from inferometer_serving.layers.attempts import Attempt
from inferometer_serving.layers.brick_model import (
    ANY_TENSOR,
    Runnable,
    bind,
    brick_model,
    open_brick,
    open_chain,
    open_reference,
)
from inferometer_serving.layers.kernels import KERNELS, LEAST_SPREAD_NS, Kernels
from inferometer_serving.layers.layer_tensors import graph_inputs, random_array
from inferometer_serving.layers.machine import machine_state
from inferometer_serving.layers.optimised_graph import (
    FOLDER_OF_WEIGHTS,
    LEVELS,
    OFF,
    GraphSettings,
    session_options,
    with_fixed_shapes,
)
from inferometer_serving.layers.timing import OUT_OF_TIME, Item, Report, time_items
from inferometer_serving.layers.whole_model import (
    WholeModel,
    largest_difference,
    open_variant,
)
from inferometer_serving.model.session import EngineSettings
from inferometer_serving.node.machine import cpu_times, other_cpu_share
from inferometer_serving.options import EngineName, Precision

_CHAIN = 33
_FEWEST_MODEL_ROUNDS = 10
_SETTLE_NS = 3_000_000
_BRICK_RUNS_NS, _MOST_BRICK_RUNS, _LONG_BRICK_NS = 2_000_000, 8, 10_000_000
"""In one round. Bricks are many, and each is a part of a model: they get less time than models."""
_NO_FAILURES = ("", OUT_OF_TIME)


@dataclass(frozen=True, slots=True)
class MeasureOptions:
    """How things are timed."""

    graph: GraphSettings = field(default_factory=GraphSettings)
    rounds: int = 8
    """The most rounds of a brick, and those of each variant."""
    engines: tuple[EngineName, ...] = ()
    """Engines whose kernels are timed for each layer; none: the bricks are timed by calls."""
    precision: Precision = Precision.DEFAULT
    """That the kernels are to compute in."""
    budget_seconds: float = inf
    attempt: Attempt = field(default_factory=Attempt)
    uses: Sequence[Mapping[str, int]] = ()
    """How often each model runs each brick, by key: what is a small part of all needs few rounds.
    """

    @property
    def shares_threads(self) -> bool:
        """Whether all sessions use the same threads; engines whose kernels count have their own."""
        return self.graph.threads > 1 and not self.engines


@dataclass(slots=True)
class _Found:
    """What was found so far."""

    kernels: list[KernelTiming] = field(default_factory=list)
    measured: dict[str, VariantTiming] = field(default_factory=dict)
    expected: list[Any] = field(default_factory=list)
    """The outputs of the first variant."""


def measure(
    suite: BrickSuite,
    models: Sequence[GraphFile],
    variants: Sequence[ModelVariant],
    options: MeasureOptions,
    report: Report,
) -> LayerTimings:
    """Return timings of the bricks of a suite, of whole models, and of variants of one model.

    What an engine refuses is named with the reason. Raises ModelRefusedError if no variant can
    run.
    """
    began = time.monotonic()
    found = _Found()
    bricks, kernels = _brick_items(suite, options), _kernel_items(suite, options, found)
    wholes = [_model_item(graph, options) for graph in models]
    variant_items = [_variant_item(each, options, found) for each in variants]
    single, chain = (
        _overhead_item(f"{count} layers that compute nothing", partial(open_chain, count), options)
        for count in (1, _CHAIN)
    )
    reference = _overhead_item("a matrix product for reference", open_reference, options)
    reference.settle_ns = _SETTLE_NS if variants else 0
    calls = [single, *bricks, *wholes, chain] if bricks else wholes
    calls = [reference, *calls] if calls or kernels or variants else []
    items = [*variant_items, *calls, *kernels]
    until = began + options.budget_seconds
    before, own_before = cpu_times(), time.process_time()
    time_items(items, report, uses=options.uses, until_seconds=until, attempt=options.attempt)
    own_seconds = time.process_time() - own_before
    others = other_cpu_share(before, cpu_times(), own_seconds)
    refusals = [each.failure for each in variant_items if each.failure != OUT_OF_TIME]
    if refusals and all(refusals):
        raise ModelRefusedError(refusals[0])
    call_ns, node_ns = _call_costs(single, chain)
    settings = EngineSettings(threads=options.graph.threads, precision=options.precision)
    return LayerTimings(
        machine=machine_state(settings, with_peaks=bool(variant_items)),
        run_nanoseconds=round(call_ns),
        node_nanoseconds=round(node_ns),
        seconds=time.monotonic() - began,
        other_cpu_share=others,
        reference_nanoseconds=reference.timing().nanoseconds if reference.middle_ns else 0,
        reference_spread_nanoseconds=reference.spread_ns(),
        bricks={each.name: each.timing() for each in bricks if not each.failure},
        kernels=found.kernels,
        failed=_failures(bricks, wholes, variant_items) + _kernel_failures(kernels),
        untimed=[each.name for each in items if each.failure == OUT_OF_TIME],
        models={each.name: each.timing() for each in wholes if not each.failure},
        variants=found.measured,
    )


def _call_costs(single: Item, chain: Item) -> tuple[float, float]:
    """Return the ns of one call and of one layer that computes nothing; 0 if not timed."""
    if not single.middle_ns or not chain.middle_ns:
        return 0.0, 0.0
    once_ns = single.timing().nanoseconds
    node_ns = max((chain.timing().nanoseconds - once_ns) / (_CHAIN - 1), 0.0)
    return max(once_ns - node_ns, 0.0), node_ns


def _failures(*groups: Sequence[Item]) -> list[LayerFailure]:
    return [
        LayerFailure(key=each.name, engine=EngineName.ONNX_RUNTIME, reason=each.failure)
        for group in groups
        for each in group
        if each.failure not in _NO_FAILURES
    ]


def _kernel_failures(items: Sequence[Item]) -> list[LayerFailure]:
    failed = (each for each in items if each.failure not in _NO_FAILURES)
    parts = ((each.name.partition(":"), each.failure) for each in failed)
    return [
        LayerFailure(key=key, engine=engine, reason=reason) for (engine, _, key), reason in parts
    ]


def _brick_items(suite: BrickSuite, options: MeasureOptions) -> list[Item]:
    if options.engines:
        return []
    return [
        Item(
            name=key,
            open=partial(_open_brick, suite, brick, options),
            rounds_wanted=options.rounds,
            bytes=brick_bytes(suite, brick),
            is_mixed=True,
            runs_ns=_BRICK_RUNS_NS,
            most_runs=_MOST_BRICK_RUNS,
            long_ns=_LONG_BRICK_NS,
            is_cold_enough=True,
        )
        for key, brick in suite.bricks.items()
    ]


def _open_brick(suite: BrickSuite, brick: Brick, options: MeasureOptions) -> Runnable:
    return open_brick(suite, brick, _shared_options(options))


def _shared_options(options: MeasureOptions, level: Any = OFF) -> Any:
    """Return options of a session whose threads are those of all bricks and models.

    As in one model, threads that have computed a layer wait, spinning, for the next one. Threads of
    its own would take the CPUs from the next session. Layers are optimised already: `OFF`.
    """
    found = session_options(options.graph.threads, level)
    if options.shares_threads:
        _share_threads(options.graph.threads)
        found.use_per_session_threads = False
        found.intra_op_num_threads = found.inter_op_num_threads = 0
    return found


@cache
def _share_threads(threads: int) -> None:
    """Make the threads of all sessions that this process opens from now on."""
    onnxruntime.set_global_thread_pool_sizes(threads, 1)


def _kernel_items(suite: BrickSuite, options: MeasureOptions, found: _Found) -> list[Item]:
    settings = EngineSettings(threads=options.graph.threads, precision=options.precision)
    items = []
    for key, brick in suite.bricks.items():
        for engine in options.engines:
            item = Item(
                name=f"{engine}:{key}",
                open=partial(_open_kernels, KERNELS[engine], suite, brick, settings),
                rounds_wanted=options.rounds,
                bytes=brick_bytes(suite, brick),
            )
            item.finish = partial(_keep_kernels, found, key, item)
            items.append(item)
    return items


def _open_kernels(
    kind: type[Kernels], suite: BrickSuite, brick: Brick, settings: EngineSettings
) -> Kernels:
    return kind(brick_model(suite, brick), settings)


def _keep_kernels(found: _Found, key: str, item: Item, kernels: Kernels, runs: int) -> None:
    nanoseconds = kernels.kernel_ns(runs)
    spread_ns = item.spread_ns(kernels.own_ns)
    found.kernels.append(
        KernelTiming(
            key=key,
            engine=kernels.engine,
            precision=kernels.precision,
            nanoseconds=nanoseconds,
            runs=runs,
            spread_nanoseconds=None if spread_ns is None else max(spread_ns, LEAST_SPREAD_NS),
        )
    )


def brick_bytes(suite: BrickSuite, brick: Brick) -> int:
    """Return the memory of a brick's tensors, its weights included."""
    layers = [suite.layers[key] for key in brick.layers]
    tensors = [tensor for each in layers for tensor in (*each.inputs, *each.outputs)]
    return 2 * sum(map(_bytes, tensors))  # weights are packed once more


def _bytes(tensor: LayerTensor) -> int:
    with contextlib.suppress(ValueError, KeyError):
        dtype = helper.tensor_dtype_to_np_dtype(TensorProto.DataType.Value(tensor.datatype))
        return prod(tensor.shape) * dtype.itemsize
    return 0


def _overhead_item(
    name: str, open_with: Callable[[Any], Runnable], options: MeasureOptions
) -> Item:
    """Return something that is no part of a model and is timed with all bricks and models."""
    return Item(
        name=name,
        open=lambda: open_with(_shared_options(options)),
        rounds_wanted=max(options.rounds, _FEWEST_MODEL_ROUNDS),
        needs_all_rounds=True,
    )


def _model_item(graph: GraphFile, options: MeasureOptions) -> Item:
    return Item(
        name=graph.path.stem,
        open=partial(_open_model, graph, options),
        rounds_wanted=max(options.rounds, _FEWEST_MODEL_ROUNDS),
        bytes=2 * graph.size_bytes,
        needs_all_rounds=True,
    )


def _open_model(graph: GraphFile, options: MeasureOptions) -> Runnable:
    of_session = _shared_options(options, LEVELS["Blocked"])
    of_session.add_session_config_entry(FOLDER_OF_WEIGHTS, str(graph.path.parent.resolve()))
    model = with_fixed_shapes(graph, options.graph)
    opened = onnxruntime.InferenceSession(
        model.SerializeToString(), of_session, providers=["CPUExecutionProvider"]
    )
    generator = np.random.default_rng(0)
    feeds = {name: random_array(generator, each) for name, each in graph_inputs(model).items()}
    return bind(opened, feeds, {each.name: ANY_TENSOR for each in opened.get_outputs()})


def _variant_item(variant: ModelVariant, options: MeasureOptions, found: _Found) -> Item:
    item = Item(
        name=variant.name,
        open=partial(open_variant, variant, options.graph),
        rounds_wanted=options.rounds,
        needs_all_rounds=True,
        settle_ns=_SETTLE_NS,
    )
    item.finish = lambda whole, _: _keep_variant(found, item, whole)
    return item


def _keep_variant(found: _Found, item: Item, whole: WholeModel) -> None:
    outputs = whole.run()
    found.expected = found.expected or outputs
    found.measured[item.name] = VariantTiming(
        nanoseconds=item.middle_ns,
        precision=whole.session.precisions.effective,
        version=whole.session.runtime_version,
        difference=largest_difference(found.expected, outputs),
        disturbed_rounds=item.disturbed_rounds,
    )
