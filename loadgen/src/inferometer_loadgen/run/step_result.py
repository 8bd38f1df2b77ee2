"""Composition of one step's entry in the result document. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from inferometer_api.results.result import (
    ClientHealth,
    Counts,
    EarlyStopping,
    ErrorExample,
    ModelFigures,
    NodeTelemetry,
    ServerTime,
    Step,
    UsageSample,
    WorkerShare,
)
from inferometer_api.scenarios.step_setting import Closed, JudgedPercentile
from inferometer_loadgen.nodes.energy import EnergyTerms, WorkDone, energy
from inferometer_loadgen.nodes.series import filled, served_cpu_seconds, telemetry_of
from inferometer_loadgen.nodes.window import NodeWindow
from inferometer_loadgen.record.backlog import Unanswered
from inferometer_loadgen.record.histogram import Histogram, highest_of
from inferometer_loadgen.record.recorder import ModelStatistics, StepStatistics
from inferometer_loadgen.schedule.steps import SECOND_NS, End, StepPlan
from inferometer_loadgen.verdict.early_stopping import max_overshoots, required_queries


@dataclass(frozen=True, slots=True)
class MeasuredTimes:
    """When a step was measured, in nanoseconds."""

    started_at: str
    warm_up_ns: int
    duration_ns: int
    drain_ns: int
    """From the window's end to the last answer, in open loops."""
    longest_silence_ns: int | None = None
    """The longest time within it without a good answer, in closed loops."""


@dataclass(frozen=True, slots=True)
class Used:
    """CPU and memory that server and load generator used."""

    samples: Sequence[UsageSample]
    server_cpu_seconds: float | None
    """Within the window."""
    client_cpu_seconds: float
    """Within the window and its drain."""
    client: ClientHealth = field(default_factory=ClientHealth)
    """Within the window and its drain."""


@dataclass(frozen=True, slots=True)
class Metered:
    """What the servers and the agents of their nodes reported around the window."""

    terms: EnergyTerms
    windows: Sequence[NodeWindow]
    answered: int
    """Queries answered between the window's edges, whenever they were due."""
    server_time: ServerTime | None = None

    def nodes(self) -> list[NodeTelemetry]:
        """Return the telemetry of each node for the result document."""
        return [telemetry_of(each, on_gpu=self.terms.on_gpu) for each in self.windows]


def summarize(  # noqa: PLR0913 - one argument for each source of a step's figures
    plan: StepPlan,
    tallied: StepStatistics,
    span: MeasuredTimes,
    used: Used,
    metered: Metered,
    *,
    end: End,
    reconnects: int,
    open_loop: bool,
    connections: int | None = None,
    workers: Sequence[WorkerShare] = (),
) -> Step:
    """Compose the figures of one step."""
    counts = _counts(plan, tallied, reconnects, open_loop=open_loop)
    achieved = _achieved(tallied, span, open_loop=open_loop)
    nodes = metered.nodes()
    latency, spent = tallied.latency.distribution(), metered.server_time
    if latency is not None and spent is not None:
        spent = spent.with_shares(latency.mean_nanoseconds)
    all_nodes = [] if metered.terms.unmetered else nodes  # some servers' figure is not all's
    return Step(
        label=plan.label,
        batch_size=plan.batch_size,
        seed=plan.seed if plan.is_probe else None,
        clients=plan.loop.clients if isinstance(plan.loop, Closed) else None,
        started_at=span.started_at,
        warm_up_nanoseconds=span.warm_up_ns,
        warm_up_queries=tallied.warm_up_queries,
        duration_nanoseconds=span.duration_ns,
        drain_nanoseconds=span.drain_ns,
        ended_early=end not in {End.DONE, End.DECIDED},
        counts=counts,
        scheduled_qps=_rate(tallied.scheduled, span.duration_ns / SECOND_NS) if open_loop else None,
        achieved_qps=achieved,
        achieved_samples_per_second=achieved * plan.batch_size,
        models=[_model(each, span, open_loop=open_loop) for each in tallied.models],
        latency=latency,
        longest_silence_nanoseconds=span.longest_silence_ns,
        server_time=spent,
        service_time=tallied.service_time.distribution() if open_loop else None,
        dispatch_lag=tallied.dispatch_lag.distribution() if open_loop else None,
        windows=tallied.windows.report(open_loop=open_loop),
        usage=filled(used.samples, all_nodes),
        server_cpu_seconds=_server_cpu_seconds(used, all_nodes),
        client_cpu_seconds=used.client_cpu_seconds,
        error_examples=_examples(tallied),
        output_deviations=[
            tallied.shape_deviations[name] for name in sorted(tallied.shape_deviations)
        ],
        json_replies=tallied.json_replies,
        energy=energy(metered.windows, metered.terms, _worked(plan, span, used, metered)),
        telemetry=nodes,
        early_stopping=early_stopping(plan.judged, tallied),
        client=used.client,
        connections=connections,
        workers=list(workers),
    )


def _achieved(tallied: StepStatistics, span: MeasuredTimes, *, open_loop: bool) -> float:
    """Return answers per second.

    An open loop counts the answers to the window's queries, over the window and its drain. A closed
    loop counts all answers within the window: at both of its edges, as many queries are
    outstanding as there are clients.
    """
    if open_loop:
        return _rate(tallied.latency.count, (span.duration_ns + span.drain_ns) / SECOND_NS)
    return _rate(tallied.answered_within, span.duration_ns / SECOND_NS)


def _model(found: ModelStatistics, span: MeasuredTimes, *, open_loop: bool) -> ModelFigures:
    """Return the figures of one model of a mix; its rate is over the window and its drain."""
    seconds = (span.duration_ns + (span.drain_ns if open_loop else 0)) / SECOND_NS
    succeeded, failed = found.latency.count, found.errors.total()
    return ModelFigures(
        model=found.model,
        share=found.share,
        queries=succeeded + failed,
        succeeded=succeeded,
        failed=failed,
        errors=dict(sorted(found.errors.items())),
        achieved_qps=_rate(succeeded, seconds),
        latency=found.latency.distribution(),
    )


def _counts(plan: StepPlan, tallied: StepStatistics, reconnects: int, *, open_loop: bool) -> Counts:
    succeeded, failed = tallied.latency.count, tallied.errors.total()
    bound_ns = None if plan.judged is None else plan.judged.bound_ns
    return Counts(
        queries=succeeded + failed,
        samples=succeeded * plan.batch_size,
        succeeded=succeeded,
        failed=failed,
        errors=dict(sorted(tallied.errors.items())),
        scheduled=tallied.scheduled if open_loop else None,
        waited_for_connection=tallied.waited_for_connection,
        checked_replies=tallied.checked_replies,
        reconnects=reconnects,
        resent=tallied.resent,
        overshoots=None if bound_ns is None else tallied.overshoots,
    )


def _server_cpu_seconds(used: Used, nodes: Sequence[NodeTelemetry]) -> float | None:
    here = used.server_cpu_seconds
    return served_cpu_seconds(nodes) if here is None else here


def _examples(tallied: StepStatistics) -> list[ErrorExample]:
    return [
        ErrorExample(kind=kind, message=each) for kind, each in sorted(tallied.examples.items())
    ]


def _worked(plan: StepPlan, span: MeasuredTimes, used: Used, metered: Metered) -> WorkDone:
    samples = metered.answered * plan.batch_size
    return WorkDone(samples, span.duration_ns, used.server_cpu_seconds)


def _rate(count: int, seconds: float) -> float:
    return count / seconds if seconds > 0 else 0.0


def unanswered(tallied: StepStatistics) -> Unanswered:
    """Return how many queries were unanswered, early and late in the window."""
    return Unanswered(tallied.unanswered_early, tallied.unanswered_late)


def early_stopping(
    judged: JudgedPercentile | None, tallied: StepStatistics
) -> EarlyStopping | None:
    """Return the early-stopping figures of the judged percentile; None if there is none.

    With a bound: how many queries that many overshoots require. Without one: an estimate that the
    percentile does not exceed, as MLPerf LoadGen makes it for single and multiple streams.
    """
    if judged is None:
        return None
    failed = tallied.errors.total()
    queries = tallied.latency.count + failed
    if judged.bound_ns is None:
        return _estimated(judged.percentile, tallied.latency, queries, failed)
    return EarlyStopping(
        percentile=judged.percentile,
        latency_bound_nanoseconds=judged.bound_ns,
        queries=queries,
        overshoots=tallied.overshoots,
        required_queries=required_queries(tallied.overshoots, judged.percentile),
    )


def _estimated(percentile: float, latency: Histogram, queries: int, failed: int) -> EarlyStopping:
    # LoadGen requires that at least one query may be beyond the estimate, and uses the last of
    # those that may as the estimate: sorted[queries - t], from 0.
    most = max_overshoots(queries, percentile) or 0
    discarded = max(0, most - 1)
    known = most >= 1 and failed <= discarded  # a failed query is later than every answer
    return EarlyStopping(
        percentile=percentile,
        queries=queries,
        overshoots=discarded,
        required_queries=None if most >= 1 else required_queries(1, percentile),
        estimate_nanoseconds=_at_rank(latency, queries - discarded) if known else None,
    )


def _at_rank(latency: Histogram, rank: int) -> int:
    """Return the highest value equivalent to that of a rank, from 1."""
    sparse = latency.sparse()
    bucket = int(sparse.buckets[np.searchsorted(sparse.counts.cumsum(), rank)])
    return min(highest_of(bucket), latency.max_ns)
