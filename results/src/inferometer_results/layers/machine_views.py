"""Answers from the layer database which machine is fast for a model, and vice versa."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from inferometer_analysis.advice import paired_gain
from inferometer_analysis.bound import timing_interval
from inferometer_analysis.bricks.interpolate import Interpolation
from inferometer_analysis.bricks.predict import Prediction, predict
from inferometer_analysis.samples import Interval, total
from inferometer_api.layers.advice import ModelAdvice
from inferometer_api.layers.graph import LayerGraph
from inferometer_api.layers.split import default_granularity
from inferometer_api.layers.timings import LayerTimings, MachineState
from inferometer_api.nodes.characteristics import NodeCharacteristics
from inferometer_api.nodes.peaks import measurements_like
from inferometer_results.explore.prices import PricedNodes, PriceList
from inferometer_results.layers.advice_report import timed_advice
from inferometer_results.layers.bound_report import BoundReport, bound_report, variant_words
from inferometer_results.store.advice import AdviceSource
from inferometer_results.store.layer_timings import joined
from inferometer_results.store.measured_energy import EnergyKey

_PRECISION = "FP32"


@dataclass(frozen=True, slots=True)
class TimedOperator:
    """The unique layers of one operator that were timed on a machine."""

    name: str | None
    """None on a machine without any."""
    layers: int
    nanoseconds: Interval
    """Of all of them together, the fastest kernel of each."""


@dataclass(frozen=True, slots=True)
class LayerMachine:
    """Everything that is known about one machine, its engines and a number of threads."""

    timings: LayerTimings

    @property
    def state(self) -> MachineState:
        """The machine, as it was measured last."""
        return self.timings.machine

    @property
    def operators(self) -> list[TimedOperator]:
        """The operators whose kernels were timed, the slowest first."""
        names = {
            key: layer.operator
            for graph in self.timings.graphs
            for key, layer in graph.layers.items()
        }
        found: dict[str, list[Interval]] = {}
        kernels = sorted(self.timings.kernels, key=lambda each: -each.nanoseconds)
        for key, fastest in {each.key: each for each in kernels}.items():
            found.setdefault(names.get(key, "unknown"), []).append(timing_interval(fastest))
        rows = (TimedOperator(name, len(each), total(each)) for name, each in found.items())
        return sorted(rows, key=lambda row: -row.nanoseconds.value)


@dataclass(frozen=True, slots=True)
class BoundRow:
    """The bounds of a model on one machine, and the variants that are faster than the first."""

    report: BoundReport
    batch_size: int
    faster: tuple[tuple[str, Interval], ...]
    """Words and gain of each variant whose 95 % interval is above zero, the best first."""


@dataclass(frozen=True, slots=True)
class PredictedLatency:
    """The latency of a model on a machine, by the layers that were timed there."""

    batch_size: int
    machine: MachineState
    prediction: Prediction

    @property
    def processor(self) -> str:
        """The model of the machine's CPU."""
        return self.machine.name.partition(", ")[0]

    def microjoules(self, measured: Mapping[EnergyKey, int]) -> int | None:
        """Return the energy of an inference, if a run measured it on such a processor."""
        return measured.get(EnergyKey(self.prediction.model, self.batch_size, self.processor))

    def cost_per_million(self, prices: PriceList | None) -> float | None:
        """Return what a million inferences cost there; None without a price for its processor."""
        found = self.prediction
        if prices is None or not found.is_complete:
            return None
        per_second = 1e9 * self.batch_size / max(found.sequential_nanoseconds, 1.0)
        return prices.per_million(PricedNodes(cpu=self.processor), per_second)


def layer_machines(documents: Iterable[LayerTimings]) -> list[LayerMachine]:
    """Return the machines by name and threads; of one layer the newest timing counts."""
    found: dict[tuple[str, ...], LayerTimings] = {}
    for each in documents:
        key = machine_key(each.machine)
        found[key] = joined(found[key], each) if key in found else each
    return [LayerMachine(found[key]) for key in sorted(found)]


def bound_rows(
    documents: Iterable[LayerTimings],
    machines: Iterable[LayerMachine],
    nodes: Sequence[NodeCharacteristics] = (),
) -> list[BoundRow]:
    """Return the bounds of each measured model: the newest of each machine and precision.

    `nodes` are all measurements of nodes: those of equal machines raise the peaks of a roofline.
    """
    known = {machine_key(each.state): each.timings for each in machines}
    rows: dict[tuple[str, ...], BoundRow] = {}
    for each in documents:
        for graph in each.graphs:
            if graph.layout == "Plain" and each.variants:
                precision = _precision(each)
                report = bound_report(
                    graph.model,
                    precision,
                    graph,
                    known.get(machine_key(each.machine)),
                    each,
                    measurements_like(nodes, each.machine),
                )
                key = (graph.model, str(graph.batch_size), *machine_key(each.machine), precision)
                rows[key] = BoundRow(report, graph.batch_size, tuple(_faster(each)))
    return [rows[key] for key in sorted(rows)]


@dataclass(frozen=True, slots=True)
class DatedAdvice:
    """Advice, and when the store received it."""

    advice: ModelAdvice
    received_at: str


def newest_advice(sources: Iterable[AdviceSource]) -> list[DatedAdvice]:
    """Return the newest advice on each model on each machine, of sources in their order.

    Next to newer advice that was not tried stands the newest one that was: it has the gains that
    were achieved.
    """
    found: dict[tuple[str, int, str, int], dict[bool, DatedAdvice]] = {}
    for source in sources:
        found_in = source.document
        advice = (found_in,) if isinstance(found_in, ModelAdvice) else timed_advice(found_in)
        for each in advice:
            newest = found.setdefault((each.model, each.batch_size, each.machine, each.threads), {})
            if each.was_tried:
                newest.clear()
            newest[each.was_tried] = DatedAdvice(each, source.received_at)
    return [each for key in sorted(found) for each in found[key].values()]


def _precision(timings: LayerTimings) -> str:
    """Return the precision of a bound: on a GPU that of the first variant."""
    if timings.machine.device == "CPU":
        return _PRECISION
    return next(iter(timings.variants.values())).precision


def machine_key(state: MachineState) -> tuple[str, ...]:
    """Return what timings have in common that are joined: machine, threads and engines."""
    engines = (f"{name} {version}" for name, version in sorted(state.engines.items()))
    return state.name, str(state.threads), *engines


def _faster(timings: LayerTimings) -> Iterator[tuple[str, Interval]]:
    first, *others = timings.variants.items()
    gains = [
        (name, paired_gain(first[1].nanoseconds, each.nanoseconds))
        for name, each in others
        if len(each.nanoseconds) == len(first[1].nanoseconds)
    ]
    for name, gain in sorted(gains, key=lambda each: -each[1].value):
        if gain.low is not None and gain.low > 0:
            yield variant_words(name, timings.machine.device), gain


def predicted_latencies(machines: Iterable[LayerMachine]) -> list[PredictedLatency]:
    """Return the latency of every known model on every machine, by model, the fastest first."""
    every = list(machines)
    graphs: dict[tuple[str, int, str], LayerGraph] = {
        (graph.model, graph.batch_size, graph.engine_version): graph
        for machine in every
        for graph in machine.timings.graphs
        if graph.layout == "Blocked"
    }
    rows: list[PredictedLatency] = []
    for machine in every:
        timings = machine.timings
        if not timings.bricks:
            continue
        granularity = default_granularity(machine.state.threads)
        interpolation = Interpolation(timings.graphs, timings, granularity)
        rows.extend(
            PredictedLatency(
                batch_size, machine.state, predict(graph, timings, granularity, interpolation)
            )
            for (_, batch_size, version), graph in graphs.items()
            if machine.state.engines.get("onnxruntime") == version
        )
    return sorted(rows, key=_rank)


def _rank(row: PredictedLatency) -> tuple[str, int, bool, float]:
    found = row.prediction
    return found.model, row.batch_size, not found.is_complete, found.sequential_nanoseconds
