"""A result as OpenMetrics text, with the names and labels of the operator's metrics of runs."""

from collections.abc import Callable, Iterator, Sequence
from statistics import fmean

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.registry import Collector
from typing_extensions import override

from inferometer_api.metrics.definitions import (
    RUN_ERRORS,
    RUN_JOULES,
    RUN_LATENCY,
    RUN_NET_JOULES,
    RUN_QPS,
    RUN_QUERIES,
    RUN_SERVER_TIME,
    RUN_STEP_SHARE,
    RUN_VALID,
    Metric,
    run_labels,
)
from inferometer_api.results.result import ResultDocument, Step, nanoseconds_at
from inferometer_results.quantity import PERCENTILES
from inferometer_results.wording.search import steps_shown

_SECOND_NS = 1e9
_JOULE_UJ = 1e6
_Measured = tuple[Step, bool]
"""A step of one repeat, and whether its scenario is VALID."""
_Values = Callable[[_Measured], Sequence[tuple[tuple[str, ...], float | None]]]


def openmetrics(document: ResultDocument) -> str:
    """Return a gauge for each figure of each step, ending with # EOF.

    Over repeats, `valid` is 1 if all are VALID, and every other figure is the arithmetic mean.
    """
    written: bytes = generate_latest(_Result(document))  # type: ignore[no-untyped-call]  # theirs
    return written.decode()


class _Result(Collector):
    """The families of one result."""

    def __init__(self, document: ResultDocument) -> None:
        self._document = document

    @override
    def collect(self) -> Iterator[GaugeMetricFamily]:
        steps = _by_step(self._document)
        namespace_and_run = run_labels(self._document.run)
        for metric, values in _FIGURES:
            found = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
            for place, repeats in steps.items():
                gathered: dict[tuple[str, ...], list[float]] = {}
                for one in repeats:
                    for more, value in values(one):
                        if value is not None:
                            gathered.setdefault(more, []).append(value)
                for more, numbers in gathered.items():
                    over = min(numbers) if metric is RUN_VALID else fmean(numbers)
                    found.add_metric([*namespace_and_run, *place, *more], over)
            yield found


def _by_step(document: ResultDocument) -> dict[tuple[str, str], list[_Measured]]:
    steps: dict[tuple[str, str], list[_Measured]] = {}
    for result in document.scenarios:
        for step in steps_shown(result):
            # The probe at a peak has another number in each repeat.
            label = "" if result.peak is not None else step.label
            measured = (step, result.verdict.state == "VALID")
            steps.setdefault((result.name, label), []).append(measured)
    return steps


def _latencies(measured: _Measured) -> list[tuple[tuple[str, ...], float | None]]:
    found = ((each, nanoseconds_at(measured[0].latency, each)) for each in PERCENTILES)
    return [
        ((f"{each:g}",), None if value is None else value / _SECOND_NS) for each, value in found
    ]


def _server_seconds(measured: _Measured) -> list[tuple[tuple[str, ...], float | None]]:
    spent = measured[0].server_time
    if spent is None:
        return []
    parts = {
        "queue": spent.queue_nanoseconds,
        "compute_input": spent.compute_input_nanoseconds,
        "compute_infer": spent.compute_infer_nanoseconds,
        "compute_output": spent.compute_output_nanoseconds,
    }
    return [((part,), nanoseconds / _SECOND_NS) for part, nanoseconds in parts.items()]


def _step_shares(measured: _Measured) -> list[tuple[tuple[str, ...], float | None]]:
    spent = measured[0].server_time
    steps = [] if spent is None else spent.steps
    return [((each.step,), each.share) for each in steps]


def _joules(
    measured: _Measured, microjoules: int | None
) -> list[tuple[tuple[str, ...], float | None]]:
    joules = None if microjoules is None else microjoules / _JOULE_UJ
    return [((measured[0].energy.attribution,), joules)]


_FIGURES: tuple[tuple[Metric, _Values], ...] = (
    (RUN_VALID, lambda each: [((), float(each[1]))]),
    (RUN_QPS, lambda each: [((), each[0].achieved_qps)]),
    (RUN_QUERIES, lambda each: [((), float(each[0].counts.queries))]),
    (RUN_ERRORS, lambda each: [((), float(each[0].counts.failed))]),
    (RUN_LATENCY, _latencies),
    (RUN_SERVER_TIME, _server_seconds),
    (RUN_STEP_SHARE, _step_shares),
    (RUN_JOULES, lambda each: _joules(each, each[0].energy.microjoules_per_inference)),
    (RUN_NET_JOULES, lambda each: _joules(each, each[0].energy.net_microjoules_per_inference)),
)
