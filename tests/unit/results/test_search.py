"""Searches, sweeps, repeats and fleets in the report and in a terminal."""

import re
from io import StringIO
from typing import Any, Literal

import numpy as np
import pytest
from rich.console import Console

from inferometer_api.results.result import (
    Distribution,
    EarlyStopping,
    ResultDocument,
    ScenarioResult,
    Step,
    Verdict,
    WorkerShare,
)
from inferometer_api.results.search import Knee, Peak, ProbeRecord, RepeatFigure, RepeatSummary
from inferometer_cli.tables.result import print_table
from inferometer_results.compare.comparison import compare
from inferometer_results.report import render_report
from inferometer_results.report.frame import CHARACTER, WIDTH
from inferometer_results.report.latency_marks import latency_marks
from inferometer_results.report.search_charts import search_chart
from inferometer_results.report.svg import draw
from support.report_pages import text_of, titles
from support.results import a_result, a_run
from support.steps import Load, a_step

_MS = 1_000_000
_SEARCH = {"name": "capacity", "findPeak": {"latencyBoundMicroseconds": 100_000}}
_SWEEP = {"name": "clients", "concurrency": {"clients": [1, 4]}}


_A_PROBE = ProbeRecord(
    step="probe 0",
    seed=0,
    target_qps=20.0,
    within_bound=False,
    decided_by="Unfinished",
    queries=9,
    overshoots=9,
)


def a_search(**changes: Any) -> ScenarioResult:
    """Return a search of four probes; the third is closest to the peak."""
    rates = (20.0, 40.0, 31.0, 33.0)
    steps = [a_step(Load(qps=rate, seconds=6, label=f"probe {i}")) for i, rate in enumerate(rates)]
    probes = [
        ProbeRecord(
            step=step.label,
            seed=index,
            target_qps=rate,
            within_bound=rate < 32,
            decided_by="EnoughQueries" if rate < 32 else "Overshoots",
            ran_to_completion=index > 1,
            queries=1000,
            overshoots=index,
        )
        for index, (rate, step) in enumerate(zip(rates, steps, strict=True))
    ]
    known: dict[str, Any] = {
        "qps": 31.5,
        "low_qps": 30.1,
        "high_qps": 32.9,
        "confidence": 0.95,
        "step": "probe 2",
        "stop_reason": "Indistinguishable",
    }
    peak = Peak(
        percentile=99.0,
        latency_bound_nanoseconds=100 * _MS,
        closed_loop_qps=40.0,
        **(known | {"service_time_nanoseconds": 25 * _MS, "probes": probes} | changes),
    )
    return ScenarioResult(
        name="capacity",
        kind="findPeak",
        seed=42,
        steps=steps,
        verdict=Verdict(state="VALID"),
        peak=peak,
    )


def a_sweep(repeat: int = 1) -> ScenarioResult:
    """Return a sweep over one and four clients with its knee at four."""
    steps = [
        a_step(Load(seconds=4, label=f"clients {n}")).model_copy(update={"clients": n})
        for n in (1, 4)
    ]
    knee = Knee(step="clients 4", clients=4, qps=44.4, p99_nanoseconds=90 * _MS, last_step=True)
    return ScenarioResult(
        name="clients",
        kind="concurrency",
        repeat=repeat,
        seed=41 + repeat,
        steps=steps,
        verdict=Verdict(state="VALID"),
        knee=knee,
    )


def with_high(latency: Distribution | None, nanoseconds: int) -> Distribution | None:
    """Return latencies whose P99 may be as high as that."""
    if latency is None:
        return None
    values = [
        value.model_copy(
            update={"low_nanoseconds": value.nanoseconds, "high_nanoseconds": nanoseconds}
            if value.percentile == 99.0
            else {}
        )
        for value in latency.percentiles
    ]
    return latency.model_copy(update={"percentiles": values})


def a_document(*results: ScenarioResult, **changes: Any) -> ResultDocument:
    """Return a run of a search and a sweep."""
    return a_result(run=a_run([_SEARCH, _SWEEP]), scenarios=list(results), **changes)


def printed(document: ResultDocument) -> str:
    """Return what a run prints at its end, in a log."""
    file = StringIO()
    print_table(document, Console(file=file, width=200))
    return file.getvalue()


def test_a_search_has_one_row_and_a_sentence_with_its_bracket() -> None:
    """The terminal shows the probe at the peak and the outcome of the search."""
    text = printed(a_document(a_search()))
    assert "probe nearest to the peak, at 31.00 queries/s, which kept the bound." in text
    assert text.count("probe") == text.count("probes") + 1
    assert (
        "The peak with p99 within 100 ms is 31.50 queries/s "
        "(95% bounds within this search: 30.10 to 32.90)" in text
    )
    assert (
        "4 probes, until probes at the two ends of the bracket would differ only by chance." in text
    )


def test_the_probe_of_an_unconfirmed_search_is_nearest_to_no_peak() -> None:
    """Its sentence says by which probe the search is judged, and whether that kept the bound."""
    peak = a_search().peak
    assert peak is not None
    missed = [each.model_copy(update={"within_bound": False}) for each in peak.probes]
    near = printed(a_document(a_search(probes=missed)))
    assert "did not keep the bound; of probes so near to the peak, about half do." in near
    unconfirmed = {"confidence": None, "qps": None, "stop_reason": "OutOfTime"}
    text = printed(a_document(a_search(**unconfirmed, probes=missed)))
    assert "of the probe by which the search is judged, at 31.00 queries/s, which did not" in text
    assert "about half" not in text


_UNMET: dict[str, Any] = {
    "qps": None,
    "low_qps": None,
    "high_qps": None,
    "confidence": None,
    "step": None,
    "stop_reason": "CannotBeMet",
}


def test_a_bound_below_the_service_time_is_explained() -> None:
    """If no rate keeps the bound, no rate is printed."""
    text = printed(a_document(a_search(**_UNMET, probes=[], service_time_nanoseconds=125 * _MS)))
    assert "No rate keeps the p99 within 100 ms: a single query already has a p99" in text
    assert "a p99 of 125 ms." in text
    unknown = printed(a_document(a_search(**_UNMET, probes=[], service_time_nanoseconds=None)))
    assert "within 100 ms: a single query at a time already exceeds it." in unknown


def test_the_lowest_rate_that_missed_the_bound_is_printed() -> None:
    """The text does not claim that a single query misses the bound if it keeps it."""
    text = printed(a_document(a_search(**_UNMET)))
    assert "a p99 of 25.0 ms; no probe kept it, down to 20.0 queries/s." in text


@pytest.mark.parametrize(
    ("stopped", "end"),
    [
        ("ProbesTooShort", ", which ended before a queue could grow: use longer probes"),
        ("OutOfTime", ""),
        ("EndedEarly", ", before the search was ended early"),
        ("ProbesCutOff", ""),
        ("Indistinguishable", ", which contradict each other: use longer probes, and a machine"),
    ],
)
def test_a_search_without_a_peak_has_a_sentence(stopped: str, end: str) -> None:
    """The sentence says what is known; the verdict names the limit that was hit."""
    unknown = {**_UNMET, "stop_reason": stopped}
    text = printed(a_document(a_search(**unknown | {"low_qps": 83.2, "high_qps": 101.0})))
    assert (
        "No peak with p99 within 100 ms is confirmed: at least 83.2/s; not confirmed above 101/s "
        f"(4 probes{end}" in text
    )
    one = a_search(**unknown, probes=[_A_PROBE])
    assert f"no probe decided whether the bound is kept (1 probe{end}" in printed(a_document(one))


def test_the_page_says_what_is_known_without_a_peak() -> None:
    """The card and the chart show both rates with their numbers; cut-off probes are named."""
    unknown = {**_UNMET, "stop_reason": "OutOfTime", "low_qps": 31.0, "high_qps": 33.0}
    peak = a_search().peak
    assert peak is not None
    probes = list(peak.probes)
    probes[0] = probes[0].model_copy(update={"decided_by": "Unfinished", "within_bound": None})
    document = a_document(a_search(**unknown, probes=probes))
    text = text_of(document)
    glance = text[text.index("At a glance") : text.index("Summary")]
    assert "at least 31 queries/s" in glance
    assert "not confirmed above 33 queries/s" in glance
    assert "not confirmed above 33/s" in text[text.index("Summary") :]
    assert "cut off" in text


def test_a_sweep_prints_its_knee() -> None:
    """If the knee is the last step, it may lie beyond."""
    text = printed(a_document(a_sweep()))
    assert "is at 4 clients: 44.4 queries/s, p99 90.0 ms; this is the last step" in text


def test_repeats_have_a_table_and_their_advice() -> None:
    """Each figure has its mean, its interval and its variation."""
    figure = RepeatFigure(
        name="achievedQps",
        step="clients 4",
        values=[40.0, 50.0],
        mean=45.0,
        low=40.0,
        high=50.0,
        coefficient_of_variation=0.157,
    )
    summary = RepeatSummary(
        name="clients", repeats=2, figures=[figure], advice="Set repeats to 40."
    )
    document = a_document(a_sweep(), a_sweep(2), repeat_summaries=[summary])
    text = printed(document)
    assert "over repeats" in text
    assert "clients, clients 4" in text
    assert "clients: Set repeats to 40." in text
    page = render_report(document)
    assert titles(page).count("Variation between repeats") == 1
    assert "Beyond the chart" not in page
    assert page.count("<h3>Means of the repeats</h3>") == 1
    row = page[page.index('scope="row">queries/s, clients 4<') :]
    assert re.findall(r"<td>(.*?)</td>", row)[:5] == ["2", "45.00", "40.00", "50.00", "15.7 %"]


@pytest.mark.parametrize(
    ("scope", "sentence"),
    [
        ("Server", "the intervals cover what differs from process to process."),
        ("Load", "the intervals do not cover what differs from process to process."),
    ],
)
def test_intervals_over_repeats_say_what_they_cover(
    scope: Literal["Server", "Load"], sentence: str
) -> None:
    """Table and report say once whether each repeat had a server of its own."""
    figure = RepeatFigure(name="achievedQps", step="clients 4", values=[40.0, 50.0], mean=45.0)
    summary = RepeatSummary(name="clients", repeats=2, scope=scope, figures=[figure])
    document = a_document(a_sweep(), a_sweep(2), repeat_summaries=[summary])
    assert printed(document).count(sentence) == 1
    assert render_report(document).count(sentence) == 1


def test_bounds_above_every_percentile_are_on_the_charts() -> None:
    """The axis of latencies includes the bounds, not only the percentiles."""
    steps = a_sweep().steps
    drawn = latency_marks(steps, np.array([1.0, 4.0]))
    assert drawn is not None
    bounds = [
        value.high_nanoseconds or 0
        for step in steps
        for value in (step.latency.percentiles if step.latency else [])
        if value.percentile in {50.0, 99.0}
    ]
    high = 10 * max(bounds)
    raised = [step.model_copy(update={"latency": with_high(step.latency, high)}) for step in steps]
    wider = latency_marks(raised, np.array([1.0, 4.0]))
    assert wider is not None
    assert drawn.axis.high >= drawn.unit.of(max(bounds))
    assert wider.axis.high >= wider.unit.of(high)


def test_an_interval_that_a_chart_cuts_is_in_its_caption() -> None:
    """The wide interval of two repeats is cut, so that the chart remains readable."""
    figure = RepeatFigure(
        name="p99Nanoseconds",
        step="clients 4",
        values=[9.0 * _MS, 11.0 * _MS],
        mean=10.0 * _MS,
        low=2.0 * _MS,
        high=18.0 * _MS,
        coefficient_of_variation=0.141,
    )
    summary = RepeatSummary(
        name="clients", repeats=2, figures=[figure], advice="Set repeats to 40."
    )
    page = render_report(a_document(a_sweep(), a_sweep(2), repeat_summaries=[summary]))
    assert "Beyond the chart&#39;s edges: clients 4, p99 (20 to 180 %)." in page


def test_a_peak_without_a_bracket_has_two_digits() -> None:
    """An uncertain peak is not printed with four digits."""
    unknown = a_search(qps=99.668, low_qps=90.0, high_qps=110.0, confidence=None)
    document = a_document(unknown)
    known = "at least 90/s; not confirmed above 110/s; the probes lead to about 100/s"
    assert f"is confirmed: {known}" in printed(document)
    shown = text_of(document)
    assert "about 100" in shown
    assert "99.67" not in shown


@pytest.mark.parametrize(
    ("kind", "percentile", "hero"),
    [
        ("offline", None, r"samples/s throughput"),
        ("batch", None, r"samples/s throughput"),
        ("singleStream", 90.0, r"ms p90 latency"),
        ("multiStream", 99.0, r"ms p99 latency"),
        ("burst", None, r"ms p99 latency"),
    ],
)
def test_a_card_shows_the_main_figure(kind: str, percentile: float | None, hero: str) -> None:
    """Throughput if that is the main figure, else MLPerf's percentile, else the P99."""
    stopping = percentile and EarlyStopping(percentile=percentile, queries=9, overshoots=0)
    step = a_step(Load()).model_copy(update={"early_stopping": stopping or None})
    result = ScenarioResult(
        name="one", kind=kind, seed=1, steps=[step], verdict=Verdict(state="VALID")
    )
    text = text_of(a_document(result))
    assert hero in text[text.index("At a glance") : text.index("Summary")]


def test_the_page_draws_the_search_and_the_curve() -> None:
    """A search is drawn as its probes and the probe at its peak, a sweep as its curve."""
    document = a_document(a_search(), a_sweep())
    drawn = titles(render_report(document))
    assert drawn[0] == "Peak search"
    assert "Latency over throughput" in drawn
    assert "Latency by step" not in drawn
    text = text_of(document)
    assert "95% bracket" in text
    assert "knee, at clients 4" in text


def test_the_legend_of_a_search_begins_after_the_label_of_its_axis() -> None:
    """With probes of all three kinds, dots and names lie right of "Latency (ms, logarithmic)"."""
    search = a_search()
    assert search.peak is not None
    cut, early, *others = search.peak.probes
    probes = [
        cut.model_copy(update={"decided_by": "Unfinished"}),
        early.model_copy(update={"ran_to_completion": False}),
        *others,
    ]
    peak = search.peak.model_copy(update={"probes": probes})
    chart = search_chart(search.model_copy(update={"peak": peak}))
    assert chart is not None
    drawn = draw(chart, "a")
    dots = [float(x) for x in re.findall(r'cx="([\d.]+)" cy="10" r="4"', drawn)]
    assert len(dots) == 3
    assert min(dots) - 4 > len(chart.y.label) * CHARACTER
    ends = [float(x) for x in re.findall(r'class="name s\d end" x="([\d.]+)"', drawn)]
    assert max(ends) <= WIDTH


def test_the_summary_explains_the_row_of_a_search() -> None:
    """The caption says that a search has one row, but only if there is a search."""
    caption = (
        "Every scenario and step. A search has one row: the probe by which it is judged. Latency"
    )
    assert caption in text_of(a_document(a_search(), a_sweep()))
    assert "Every scenario and step. Latency" in text_of(a_document(a_sweep()))


def test_the_page_shows_workers_and_early_stopping() -> None:
    """Each worker has its start and clock offset; early stopping has a sentence."""
    share = WorkerShare(
        worker=1,
        node="node-b",
        queries=512,
        start_offset_nanoseconds=-1_500_000,
        clock_offset_nanoseconds=2_000_000,
        clock_uncertainty_nanoseconds=40_000,
        client_cpu_seconds=0.25,
        lost=True,
    )
    stopping = EarlyStopping(
        percentile=99.0,
        latency_bound_nanoseconds=100 * _MS,
        queries=512,
        overshoots=1,
        required_queries=662,
    )
    idle = share.model_copy(
        update={"worker": 2, "queries": 0, "client_cpu_seconds": 0.0, "lost": False}
    )
    step: Step = a_step(Load(qps=30, seconds=4)).model_copy(
        update={"workers": [share, idle], "early_stopping": stopping}
    )
    result = ScenarioResult(
        name="traffic", kind="server", seed=42, steps=[step], verdict=Verdict(state="VALID")
    )
    text = text_of(a_result(scenarios=[result]))
    assert "worker 1 (lost) node-b 512 -1.50 ms 2.00 ms 40.0 µs 0.25 s" in text
    assert "worker 2 node-b 0 \N{EN DASH} 2.00 ms 40.0 µs \N{EN DASH}" in text
    assert "1 of 512 queries exceeded 100 ms; with that many, 662 queries are needed" in text


def test_searches_are_compared_by_their_peaks_alone() -> None:
    """Probes of two searches have other rates; only the peaks compare, and only over repeats."""
    slower = a_search(qps=20.0, low_qps=19.0, high_qps=21.0)
    (pair,) = compare(a_document(a_search()), a_document(slower)).pairs
    (figure,) = pair.figures
    assert (figure.name, figure.word) == ("peak queries/s", "not judged")
    before, after = (
        document.model_copy(update={"scenarios": document.scenarios * 3})
        for document in (a_document(a_search()), a_document(slower))
    )
    (pair,) = compare(before, after).pairs
    assert [(each.name, each.word) for each in pair.figures] == [("peak queries/s", "worse")]
