"""Profiles in a result become tables, sentences and rows, and no baseline."""

import csv
import math
from dataclasses import replace
from io import StringIO

import pytest

from inferometer_analysis.samples import Interval
from inferometer_api.results.reading import ReadResult
from inferometer_api.results.result import LayerProfile, ResultDocument, StepProfile
from inferometer_results.analyses import analysis_documents, analysis_files
from inferometer_results.compare.comparison import compare
from inferometer_results.profile import (
    ProfiledStep,
    batch_sentence,
    kernel_rows,
    layers_share,
    overhead_of,
    profiled_steps,
    sentences_of,
)
from inferometer_results.report import render_report
from inferometer_results.store.index_rows import Origin, index_rows
from support.results import a_result, a_run, a_valid_result


def _profile(factor: int = 1, **changes: object) -> StepProfile:
    layers = [
        LayerProfile(
            index=at,
            name=f"layer<{at}>",
            operator=operator,
            shape=[1, 8],
            kernel=kernel,
            output_bytes=32,
            start_nanoseconds=0,
            durations_nanoseconds=[duration * factor] * 10,
        )
        for at, (operator, kernel, duration) in enumerate(
            [("Conv", "brgconv", 6_000), ("Conv", "gemm", 1_000), ("Relu", "brgconv", 2_000)]
        )
    ]
    return StepProfile(
        levels=["Model", "Layer", "Kernel"],
        model_nanoseconds=[9_500 * factor + n for n in range(10)],
        profiled_nanoseconds=[10_000 * factor + n for n in range(10)],
        layers=layers,
        **changes,  # type: ignore[arg-type]
    )


def _document() -> ResultDocument:
    """Return a run with a profile of three batch sizes, which grow with the batch."""
    document = a_result()
    throughput = document.scenarios[-1]
    profiles = [_profile(1), _profile(7), _profile(40, unavailable={"Kernel": "It has none."})]
    steps = [
        step.model_copy(update={"profile": profile})
        for step, profile in zip(throughput.steps, profiles, strict=True)
    ]
    profiled = throughput.model_copy(update={"kind": "profile", "steps": steps})
    run = a_run([{"name": throughput.name, "profile": {"batchSizes": [1, 8, 32]}}])
    return document.model_copy(update={"scenarios": [profiled], "run": run})


def _steps() -> list[ProfiledStep]:
    return list(profiled_steps(_document()))


def test_sentences_have_overhead_coverage_and_reasons() -> None:
    """The profiler's overhead has its interval, layers their part, a missing level its reason."""
    first, _, last = (list(sentences_of(each)) for each in _steps())
    assert "An inference takes 0.010 ms (95 %: 0.010 to 0.010)." in first
    assert "The profiler of the layers adds 0.001 ms (95 %: 0.001 to 0.001)." in first
    summed = (
        "The 3 layers sum to 0.009 ms: 94.7 % of an inference without the profiler, and 90.0 % of "
        "their own,"
    )
    assert any(line.startswith(summed) for line in first)
    assert "Kernel level is unavailable: It has none." in last
    assert layers_share(_steps()[0].profile) > 0.899


def test_the_overhead_covers_sessions_that_are_opened_again() -> None:
    """Each opening counts once, by its median: its own rounds say nothing about the next one."""
    added = [100, 140, 90, 120, 150]
    profile = _profile().model_copy(
        update={
            "model_nanoseconds": [1_000] * 10,
            "profiled_nanoseconds": [1_000 + each for each in added for _ in range(2)],
        }
    )
    step = replace(_steps()[0], profile=profile.model_copy(update={"opening_iterations": [2] * 5}))
    assert any("(95 % of further openings: " in line for line in sentences_of(step))
    once = overhead_of(profile)
    again = overhead_of(profile.model_copy(update={"opening_iterations": [2] * 5}))
    assert once == Interval(120.0, 90, 150)
    assert again is not None
    # The standard deviation is 25.5; 2.776 is the 97.5 % quantile of t with 4 degrees of freedom.
    half = 2.776 * 25.495 * math.sqrt(1 + 1 / 5)
    assert [again.value, again.low, again.high] == pytest.approx(
        [120, 120 - half, 120 + half], 1e-3
    )


def test_a_single_layer_takes_its_time_and_none_is_said() -> None:
    """One layer sums to nothing; a model without a layer has no shares."""
    first = _steps()[0]
    for layers, words in (
        (first.profile.layers[:1], "The only layer takes 0.006 ms: "),
        ([], "The model has no layer that takes time."),
    ):
        profile = first.profile.model_copy(update={"layers": layers})
        lines = list(sentences_of(replace(first, profile=profile)))
        assert any(line.startswith(words) for line in lines)
        assert any("sum to" in line for line in lines) is False


def test_kernels_are_summed_by_name() -> None:
    """Each of the engine's kernels has its layers, latency and share."""
    assert kernel_rows(_profile()) == [("brgconv", 2, 8_000.0, 8 / 9), ("gemm", 1, 1_000.0, 1 / 9)]


def test_the_best_batch_is_named() -> None:
    """The throughput of 1, 8 and 32 samples is highest at 8; no size was doubled exactly."""
    assert batch_sentence(_steps()) == (
        "The throughput is highest at batch 8; no batch is twice another, so that a knee is not "
        "known."
    )
    assert batch_sentence(_steps()[:1]) == ""


def test_every_layer_is_a_row_of_csv() -> None:
    """The CSV has a row for each layer of each step, the longest first."""
    files = analysis_files(_document())
    rows = list(csv.DictReader(StringIO(files["a2-layer-information-table.csv"])))
    assert len(rows) == 9
    assert (rows[0]["name"], rows[0]["nanoseconds"], rows[0]["batchSize"]) == (
        "layer<0>",
        "6000",
        "1",
    )
    assert analysis_files(a_result()) == {}


def test_a_cpu_has_its_analyses_and_the_reason_for_the_others() -> None:
    """A1 to A7 and the engine's kernels by name have rows; those of a GPU say why not."""
    found = analysis_documents(_document())
    assert list(found) == [f"a{number}" for number in range(1, 16)]
    assert [row["batchSize"] for row in found["a1"]["rows"]] == [1, 8, 32]
    assert (found["a1"]["batchOfMaximum"], found["a1"]["batchAtKnee"]) == (8, None)
    assert [row["nanoseconds"] for row in found["a3"]["rows"][:3]] == [6_000, 1_000, 2_000]
    assert [row["outputBytes"] for row in found["a4"]["rows"][:3]] == [32, 32, 32]
    types = [(row["type"], row["layers"]) for row in found["a5"]["rows"][:2]]
    assert types == [("Conv", 2), ("Relu", 1)]
    assert [row["nanoseconds"] for row in found["a6"]["rows"][:2]] == [7_000, 2_000]
    assert [row["outputBytes"] for row in found["a7"]["rows"][:2]] == [64, 32]
    assert [row["name"] for row in found["a10"]["rows"][:2]] == ["brgconv", "gemm"]
    for key in ("a8", "a9", "a11", "a12", "a13", "a14", "a15"):
        assert (found[key]["rows"], found[key]["reason"]) == (None, "It has none.")
    assert analysis_documents(a_result())["a8"]["reason"] == (
        "The profile has no kernels of a GPU."
    )


def test_no_scenario_of_a_run_with_a_profile_is_judged() -> None:
    """Also if only one of the two runs has one, and the scenario itself is none."""
    plain = a_valid_result()
    profiled = plain.model_copy(
        update={"scenarios": [*plain.scenarios, *_document().scenarios], "run": _document().run}
    )
    (pair,) = compare(plain, profiled).pairs
    assert pair.before.scenario == plain.scenarios[0].name
    assert "is of a run with a profile, which is no baseline." in pair.caveats
    (judged,) = compare(plain, plain).pairs
    assert judged.caveats == ()


def test_the_report_has_layers_and_kernels() -> None:
    """The page has a section for layers and one for kernels, with names escaped."""
    page = render_report(_document())
    assert "Layers of batch 8" in page
    assert page.count("<caption>A1 Model information table") == 1
    assert "The throughput is highest at batch 8;" in page
    layers = "A2 Layer information table, A3 Layer latency, A4 Layer memory allocation"
    assert layers in page
    assert "A5 Layer type distribution, A6 Layer latency aggregated by type, A7 Layer" in page
    assert "Kernels of batch 8" in page
    assert "layer&lt;0&gt;" in page
    assert "Kernel level is unavailable: It has none." in page
    assert "Layers of" not in render_report(a_result())


def test_a_profile_is_no_baseline_and_does_not_rank() -> None:
    """No figure of a profile is judged, and none stands for its scenario in the store."""
    document = _document()
    pairs = compare(document, document).pairs
    assert pairs
    for pair in pairs:
        assert "is of a run with a profile, which is no baseline." in pair.caveats
        assert all(figure.judgement is None for figure in pair.figures)
    found = index_rows("id", 1, ReadResult(document, ""), Origin("run", ""), [])
    assert not any(row["headline"] for row in found.measurements)


def test_a_run_with_a_profile_is_not_sorted_by_its_figures() -> None:
    """Neither are those of its other scenarios."""
    plain = a_valid_result()
    profiled = plain.model_copy(update={"scenarios": [*plain.scenarios, *_document().scenarios]})
    origin = Origin("run", "")
    assert index_rows("id", 1, ReadResult(plain, ""), origin, []).result["best_p50"] is not None
    assert index_rows("id", 1, ReadResult(profiled, ""), origin, []).result["best_p50"] is None
