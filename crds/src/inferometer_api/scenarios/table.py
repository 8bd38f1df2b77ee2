"""Table of scenario kinds: one row per kind, by its wire name.

A new kind needs its spec model, a row here, and an executor in the load generator if no existing
one can measure its steps.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, get_args

from inferometer_api.document import milli
from inferometer_api.scenarios.kind_warnings import (
    burst_warnings,
    probe_warnings,
    query_count_warnings,
    rate,
    steadiness_warnings,
)
from inferometer_api.scenarios.scenario_kind import ScenarioKind
from inferometer_api.scenarios.step_setting import (
    CLOSED_LOOP_STEP,
    NO_STEP_INPUTS,
    SINGLE_QUERY_STEP,
    Bursts,
    Closed,
    JudgedPercentile,
    Open,
    SearchGoal,
    Steady,
    StepInputs,
    StepSetting,
    TraceArrivals,
    probe_label,
)
from inferometer_api.spec.mlperf import DURATION_SECONDS, Minimums
from inferometer_api.spec.scenario import (
    Accuracy,
    Batch,
    BoundLoad,
    BricksLoad,
    Burst,
    ColdStart,
    Concurrency,
    FindPeak,
    LoadProfile,
    MultiStream,
    Offline,
    Percentile,
    Profile,
    Scenario,
    ServerLoad,
    SingleStream,
    Trace,
    Validity,
    percentile_value,
)

_SECOND_NS = 1_000_000_000
COLD_QUERIES = 20
"""Queries of a cold start whose latencies are kept one by one."""
_USUAL_PROBES = 18
"""How many probes a simulated search took on average, and a few more."""


def _no_percentile(_: LoadProfile) -> None:
    return None


def _no_warnings(_: LoadProfile, __: Validity) -> tuple[str, ...]:
    return ()


def _window_seconds(_: LoadProfile, validity: Validity) -> float:
    return validity.warm_up_seconds + validity.min_duration_seconds


def _one_query_at_a_time(_: LoadProfile, __: StepInputs) -> tuple[StepSetting, ...]:
    return (StepSetting(),)


def _first_queries(_: ColdStart, __: StepInputs) -> tuple[StepSetting, ...]:
    return (StepSetting(first_queries=COLD_QUERIES),)


def _server(load: ServerLoad, _: StepInputs) -> tuple[StepSetting, ...]:
    return (StepSetting(loop=Open(Steady(load.arrivals, milli(load.target_qps)))),)


def _server_seconds(load: ServerLoad, validity: Validity) -> float:
    queries_last = min(validity.min_queries / rate(load), validity.max_duration_seconds)
    return validity.warm_up_seconds + max(validity.min_duration_seconds, queries_last)


def _batches(batch: Batch | Profile, _: StepInputs) -> tuple[StepSetting, ...]:
    return tuple(StepSetting(label=f"batch {size}", batch_size=size) for size in batch.batch_sizes)


def _multi_stream(stream: MultiStream, _: StepInputs) -> tuple[StepSetting, ...]:
    return (StepSetting(batch_size=stream.samples_per_query),)


def _clients(sweep: Concurrency, _: StepInputs) -> tuple[StepSetting, ...]:
    return tuple(
        StepSetting(label=f"clients {number}", loop=Closed(clients=number))
        for number in sweep.clients
    )


def _offline(offline: Offline, inputs: StepInputs) -> tuple[StepSetting, ...]:
    size = offline.batch_size
    queries = -(-max(offline.samples, inputs.least_samples) // size)
    return (StepSetting(batch_size=size, loop=Closed(clients=None, total_queries=queries)),)


def _each_sample(accuracy: Accuracy, _: StepInputs) -> tuple[StepSetting, ...]:
    return (StepSetting(loop=Closed(clients=None, total_queries=accuracy.samples or 1)),)


def _bursts(burst: Burst, _: StepInputs) -> tuple[StepSetting, ...]:
    arrivals = Bursts(
        base_milli_qps=milli(burst.base_qps),
        burst_milli_qps=milli(burst.burst_qps),
        burst_ns=burst.burst_seconds * _SECOND_NS,
        period_ns=burst.period_seconds * _SECOND_NS,
    )
    return (StepSetting(loop=Open(arrivals)),)


def _recorded(trace: Trace, inputs: StepInputs) -> tuple[StepSetting, ...]:
    return (StepSetting(loop=Open(TraceArrivals(inputs.trace_file, milli(trace.time_scale)))),)


def _bounded(load: ServerLoad | FindPeak) -> JudgedPercentile | None:
    if load.percentile not in get_args(Percentile):  # A newer version wrote it.
        return None
    bound = load.latency_bound_microseconds
    return JudgedPercentile(
        percentile_value(load.percentile), None if bound is None else bound * 1000
    )


def _search_goal(search: FindPeak) -> SearchGoal:
    return SearchGoal(
        percentile=percentile_value(search.percentile),
        bound_ns=search.latency_bound_microseconds * 1000,
        min_queries=search.probe.min_queries,
        max_seconds=float(search.probe.max_seconds),
    )


_STATES = {
    "Nothing": "without image and model",
    "ImagePresent": "without model",
    "ModelCached": "model on disk",
    "ModelInMemory": "model in memory",
}
_ARRIVALS = {"Poisson": "Poisson arrivals", "Constant": "constant gaps"}

SCENARIOS: Mapping[str, ScenarioKind[Any]] = MappingProxyType(
    {
        "singleStream": ScenarioKind(
            profile=SingleStream,
            executor="load",
            loop="closed",
            steps="one",
            settings=_one_query_at_a_time,
            judged=lambda _: JudgedPercentile(90.0),
            mlperf=Minimums(DURATION_SECONDS, queries=100),
            headline="latency",
            needs_percentiles=True,
            wording=lambda _: "closed loop, one query of one sample at a time",
            shares_connections="never",
            least_seconds=_window_seconds,
            warnings=_no_warnings,
        ),
        "server": ScenarioKind(
            profile=ServerLoad,
            executor="load",
            loop="open",
            steps="one",
            settings=_server,
            judged=_bounded,
            mlperf=Minimums(DURATION_SECONDS, queries=100),
            headline="latency",
            needs_percentiles=True,
            wording=lambda load: (
                f"open loop at {load.target_qps} queries/s, "
                f"{_ARRIVALS.get(load.arrivals, load.arrivals)}"
            ),
            shares_connections="always",
            least_seconds=_server_seconds,
            warnings=query_count_warnings,
        ),
        "batch": ScenarioKind(
            profile=Batch,
            executor="load",
            loop="closed",
            steps="sweep",
            settings=_batches,
            varies="batch size",
            counts="samples",
            judged=_no_percentile,
            mlperf=None,
            headline="throughput",
            needs_percentiles=False,
            wording=lambda _: "closed loop, one query at a time, by batch size",
            shares_connections="never",
            least_seconds=_window_seconds,
            warnings=_no_warnings,
        ),
        "multiStream": ScenarioKind(
            profile=MultiStream,
            executor="load",
            loop="closed",
            steps="one",
            settings=_multi_stream,
            judged=lambda _: JudgedPercentile(99.0),
            mlperf=Minimums(DURATION_SECONDS, queries=662),
            headline="latency",
            needs_percentiles=True,
            wording=lambda _: "closed loop, one query of several samples at a time",
            shares_connections="never",
            least_seconds=_window_seconds,
            warnings=_no_warnings,
        ),
        "findPeak": ScenarioKind(
            profile=FindPeak,
            executor="load",
            loop="open",
            steps="search",
            settings=lambda _, __: (),
            usual_labels=(
                SINGLE_QUERY_STEP,
                CLOSED_LOOP_STEP,
                *(probe_label(number + 1) for number in range(_USUAL_PROBES)),
            ),
            judged=_bounded,
            mlperf=None,
            headline="peak",
            needs_percentiles=True,
            search=_search_goal,
            wording=lambda _: "search for the highest rate that keeps the bound, Poisson arrivals",
            shares_connections="always",
            # It ends as soon as it knows its peak.
            least_seconds=lambda _, __: 0.0,
            warnings=probe_warnings,
        ),
        "concurrency": ScenarioKind(
            profile=Concurrency,
            executor="load",
            loop="closed",
            steps="sweep",
            settings=_clients,
            varies="number of clients",
            judged=_no_percentile,
            mlperf=None,
            headline="knee",
            needs_percentiles=True,
            finds_knee=True,
            wording=lambda _: "closed loop, by number of clients",
            shares_connections="over gRPC",
            least_seconds=_window_seconds,
            warnings=_no_warnings,
        ),
        "offline": ScenarioKind(
            profile=Offline,
            executor="load",
            loop="closed",
            steps="one",
            settings=_offline,
            judged=_no_percentile,
            mlperf=Minimums(DURATION_SECONDS, samples=24_576),
            headline="throughput",
            needs_percentiles=False,
            wording=lambda _: "closed loop, all samples at once, batched",
            shares_connections="always",
            # It ends with its samples.
            least_seconds=lambda _, validity: validity.warm_up_seconds,
            warnings=_no_warnings,
        ),
        "burst": ScenarioKind(
            profile=Burst,
            executor="load",
            loop="open",
            steps="one",
            settings=_bursts,
            judged=_no_percentile,
            mlperf=None,
            headline="latency",
            needs_percentiles=True,
            wording=lambda _: "open loop, Poisson arrivals at a low rate with bursts",
            shares_connections="always",
            least_seconds=_window_seconds,
            warnings=burst_warnings,
        ),
        "trace": ScenarioKind(
            profile=Trace,
            executor="load",
            loop="open",
            steps="one",
            settings=_recorded,
            judged=_no_percentile,
            mlperf=None,
            headline="latency",
            needs_percentiles=True,
            wording=lambda _: "open loop, at recorded times",
            shares_connections="always",
            least_seconds=_window_seconds,
            warnings=steadiness_warnings,
        ),
        "profile": ScenarioKind(
            profile=Profile,
            executor="profile",
            loop="closed",
            steps="sweep",
            settings=_batches,
            varies="batch size",
            counts="samples",
            judged=_no_percentile,
            mlperf=None,
            headline="latency",
            needs_percentiles=False,
            wording=lambda profile: (
                "closed loop, one query at a time, by batch size; "
                f"profiled by {', '.join(profile.levels).lower()}"
            ),
            shares_connections="never",
            least_seconds=_window_seconds,
            warnings=_no_warnings,
        ),
        "accuracy": ScenarioKind(
            profile=Accuracy,
            executor="accuracy",
            loop="closed",
            steps="one",
            settings=_each_sample,
            judged=_no_percentile,
            mlperf=None,
            headline="accuracy",
            needs_percentiles=False,
            wording=lambda accuracy: (
                f"each sample of {accuracy.dataset.uri} once; {', '.join(accuracy.metrics)}"
            ),
            shares_connections="always",
            # It ends with its samples.
            least_seconds=lambda _, __: 0.0,
            warnings=_no_warnings,
        ),
        "coldStart": ScenarioKind(
            profile=ColdStart,
            executor="coldStart",
            loop="closed",
            steps="one",
            settings=_first_queries,
            judged=_no_percentile,
            mlperf=None,
            headline="latency",
            needs_percentiles=False,
            wording=lambda start: (
                f"a new server, from its creation ({_STATES.get(start.state, start.state)}) to its "
                "first answer; then closed loop, one query of one sample at a time"
            ),
            shares_connections="never",
            least_seconds=_window_seconds,
            warnings=_no_warnings,
        ),
        "bound": ScenarioKind(
            profile=BoundLoad,
            executor="layers",
            loop="closed",
            steps="one",
            settings=_one_query_at_a_time,
            judged=_no_percentile,
            mlperf=None,
            headline="latency",
            needs_percentiles=False,
            wording=lambda bound: (
                "closed loop, one query at a time; "
                + ("every layer timed alone" if bound.fill else "the whole model timed")
            ),
            shares_connections="never",
            # The budget is the longest that the layers may take.
            least_seconds=_window_seconds,
            warnings=_no_warnings,
        ),
        "bricks": ScenarioKind(
            profile=BricksLoad,
            executor="layers",
            loop="closed",
            steps="one",
            settings=_one_query_at_a_time,
            judged=_no_percentile,
            mlperf=None,
            headline="latency",
            needs_percentiles=False,
            wording=lambda bricks: (
                "closed loop, one query at a time; unique layers timed alone, of the model and "
                f"{len(bricks.models)} others"
            ),
            shares_connections="never",
            # The budget is the longest that the layers may take.
            least_seconds=_window_seconds,
            warnings=_no_warnings,
        ),
    }
)
"""Every kind of scenario by the wire name of its member."""


def step_settings(
    scenario: Scenario, inputs: StepInputs = NO_STEP_INPUTS
) -> tuple[StepSetting, ...]:
    """Return the planned steps of a scenario in order; none of a search."""
    kind = SCENARIOS[scenario.kind]
    judged = kind.judged(scenario.load_profile)
    settings = kind.settings(scenario.load_profile, inputs)
    return tuple(replace(setting, judged=judged) for setting in settings)


def recorded_arrivals(scenario: Scenario, trace_file: str) -> Iterator[TraceArrivals]:
    """Yield the recorded arrivals that the steps of a scenario replay from its trace file."""
    for setting in step_settings(scenario, StepInputs(trace_file)):
        if isinstance(setting.loop, Open) and isinstance(setting.loop.arrivals, TraceArrivals):
            yield setting.loop.arrivals


def usual_labels(scenario: Scenario) -> tuple[str, ...]:
    """Return the labels of the steps that a scenario has; of a search, those it usually has."""
    labels = SCENARIOS[scenario.kind].usual_labels
    return labels or tuple(setting.label for setting in step_settings(scenario))


def fewest_clients(scenario: Scenario) -> int | None:
    """Return how many clients the smallest step of a closed loop has; None without clients."""
    return min(_client_numbers(scenario), default=None)


def most_clients(scenario: Scenario) -> int | None:
    """Return how many clients the largest step of a closed loop has; None without clients."""
    return max(_client_numbers(scenario), default=None)


def _client_numbers(scenario: Scenario) -> list[int]:
    loops = [setting.loop for setting in step_settings(scenario)]
    return [loop.clients for loop in loops if isinstance(loop, Closed) and loop.clients is not None]


def effective_validity(scenario: Scenario, validity: Validity) -> Validity:
    """Return a run's validity with MLPerf's minimums for the scenario, if its rules are MLPerf.

    The least samples of `offline` are no part of it: they are `mlperf.samples` of its row.
    """
    least = SCENARIOS[scenario.kind].mlperf
    if validity.rules != "MLPerf" or least is None:
        return validity
    return validity.model_copy(
        update={
            "min_duration_seconds": max(validity.min_duration_seconds, least.duration_seconds),
            "min_queries": max(validity.min_queries, least.queries),
        }
    )


SEARCHES = frozenset(kind for kind, each in SCENARIOS.items() if each.steps == "search")
"""Kinds whose steps are probes, different in each run: only the peak sums them up."""
PROFILED = frozenset(kind for kind, each in SCENARIOS.items() if each.executor == "profile")
"""Kinds in which a profiler runs: their figures are no baseline and compare with no others."""
COLD_STARTS = frozenset(kind for kind, each in SCENARIOS.items() if each.profile.creates_servers)
"""Kinds that measure the start of a new server."""
BATCH_SWEEPS = frozenset(
    kind for kind, each in SCENARIOS.items() if each.varies == "batch size" and kind not in PROFILED
)


def is_evaluation(kind: str) -> bool:
    """Return whether a kind is read for an accuracy; a newer version's kind is not known to be."""
    found = SCENARIOS.get(kind)
    return found is not None and found.headline == "accuracy"


def judged_percentile(scenario: Scenario) -> JudgedPercentile | None:
    """Return the percentile that judges a scenario, with its latency bound; None if there is none.

    There is none for a kind that only a newer version knows.
    """
    kind = SCENARIOS.get(scenario.kind)
    return None if kind is None else kind.judged(scenario.load_profile)
