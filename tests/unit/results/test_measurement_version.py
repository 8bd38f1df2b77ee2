"""Figures of recorded series move only together with the version of the measurement.

Figures of the store are comparable if their keys are equal, and the key has the version instead of
the programs' own. If the test fails, either the change is a mistake, or the figures mean something
else now: then raise MEASUREMENT_VERSION, and keep `golden_figures()` as figures/VERSION.json in the
tests' data. The figures of earlier versions stay there.
"""

import json
from typing import Any

import pytest

from inferometer_api.results.reading import read_result
from inferometer_api.results.result import Step
from inferometer_api.scenarios.step_setting import JudgedPercentile
from inferometer_loadgen.nodes.energy import EnergyTerms
from inferometer_loadgen.record.recorder import Recorder
from inferometer_loadgen.run.step_result import MeasuredTimes, Metered, Used, summarize
from inferometer_loadgen.schedule.steps import SECOND_NS, End, StepPlan
from inferometer_loadgen.search.peak_regression import ProbeCount, estimate_peak
from inferometer_loadgen.search.repeats import repeat_figure
from inferometer_results.compare.figures import measured
from inferometer_results.store.comparability import MEASUREMENT_VERSION
from inferometer_results.store.index_rows import index_rows
from support.stored_results import KEPT, ORIGIN

_SECONDS, _IN_A_SECOND, _BOUND_NS = 5, 400, 9_000_000
GOLDEN: dict[str, Any] = json.loads(
    (KEPT.parent / "figures" / f"{MEASUREMENT_VERSION}.json").read_bytes()
)


def recorded_step(*, open_loop: bool) -> Step:
    """Return the step of a recorded series: 2,000 latencies with a tail, three failures."""
    recorder = Recorder(_BOUND_NS)
    recorder.begin_window()
    state = 12345
    for _ in range(_SECONDS):
        for _ in range(_IN_A_SECOND):
            state = (1103515245 * state + 12345) % 2**31  # as in the C standard's example
            tail = state % 97 == 0
            latency = 2_000_000 + state % 1_500_000 + tail * (state % 30_000_000)
            recorder.latencies.append(latency)
            recorder.service_times.append(latency - state % 1000)
            recorder.lags.append(state % 1000)
        recorder.end_second()
    for _ in range(3):
        recorder.fail("timeout", "It took too long.")
    recorder.end_window()
    recorder.end(0.0)
    terms = EnergyTerms(disabled=False, unmetered="none", milliwatts_per_core=7000, on_gpu=False)
    return summarize(
        StepPlan(
            *("batch 4", 4, 0, _SECONDS * SECOND_NS, 60 * SECOND_NS, 10),
            judged=JudgedPercentile(99.0, _BOUND_NS),
        ),
        recorder.statistics,
        MeasuredTimes("2026-01-01T00:00:00Z", 0, _SECONDS * SECOND_NS, SECOND_NS // 4),
        Used([], 4.5, 0.5),
        Metered(terms, [], _SECONDS * _IN_A_SECOND),
        end=End.DONE,
        reconnects=0,
        open_loop=open_loop,
    )


def figures_of_step(step: Step) -> dict[str, Any]:
    """Return what people compare of a step."""
    assert step.latency is not None
    assert step.early_stopping is not None
    return {
        "qps": step.achieved_qps,
        "samples": step.achieved_samples_per_second,
        "mean": step.latency.mean_nanoseconds,
        "percentiles": [
            [each.percentile, each.nanoseconds, each.low_nanoseconds, each.high_nanoseconds]
            for each in step.latency.percentiles
        ],
        "overshoots": step.counts.overshoots,
        "required": step.early_stopping.required_queries,
        "windows": [each.p99_nanoseconds for each in step.windows],
        "energy": step.energy.microjoules_per_inference,
    }


def figures_of_search() -> list[float]:
    """Return the peak of probes that were recorded, with its bounds."""
    shares = ((80.0, 2), (90.0, 9), (95.0, 14), (100.0, 31), (105.0, 52), (110.0, 88))
    found = estimate_peak(tuple(ProbeCount(qps, 2000, over) for qps, over in shares), 0.01)
    assert found is not None
    assert found.bounds_qps is not None
    return [found.qps, *found.bounds_qps]


def figures_of_store(name: str) -> dict[str, Any]:
    """Return the columns of the headline measurements of a kept result."""
    read = read_result((KEPT / f"{name}.json").read_text(), source=name)
    rows = index_rows("id", 1, read, ORIGIN, []).measurements
    columns = ("samples_per_second", "peak_qps", "p50_nanoseconds", "p99_nanoseconds")
    return {
        f"{row['scenario']} {row['repeat']}": [row[column] for column in columns]
        for row in rows
        if row["headline"]
    }


def figures_of_comparison(name: str) -> dict[str, Any]:
    """Return the figures of a kept result that `compare` judges, with their bounds."""
    read = read_result((KEPT / f"{name}.json").read_text(), source=name)
    return {
        f"{scenario} {step} {each.name}": [
            each.estimate.value,
            each.estimate.low,
            each.estimate.high,
        ]
        for (scenario, step), found in measured(read.document.scenarios).items()
        for each in found.figures
        if each.estimate is not None and each.name in {"samples/s", "p50", "peak queries/s"}
    }


def golden_figures() -> dict[str, Any]:
    """Return the figures of all recorded series, as they are computed today."""
    repeats = repeat_figure("p99Nanoseconds", "", [10.0, 11.0, 12.5])
    return {
        "open loop": figures_of_step(recorded_step(open_loop=True)),
        "closed loop": figures_of_step(recorded_step(open_loop=False)),
        "search": figures_of_search(),
        "repeats": [repeats.mean, repeats.low, repeats.high],
        "store": figures_of_store("1.1-local-restarted"),
        "comparison": figures_of_comparison("1.1-local-restarted"),
    }


def assert_equal(found: Any, golden: Any, at: str = "") -> None:
    """Fail with the place of the first figure that moved by more than rounding."""
    if isinstance(golden, dict):
        assert found.keys() == golden.keys(), at
        for name, each in golden.items():
            assert_equal(found[name], each, f"{at}, {name}")
    elif isinstance(golden, list):
        assert len(found) == len(golden), at
        for index, each in enumerate(golden):
            assert_equal(found[index], each, f"{at}, {index}")
    else:
        assert found == (golden if golden is None else pytest.approx(golden, rel=1e-6)), at


def test_figures_move_only_with_the_version_of_the_measurement() -> None:
    """Of a step in an open and a closed loop, a search, repeats, the store and a comparison."""
    assert_equal(json.loads(json.dumps(golden_figures())), GOLDEN)


@pytest.mark.parametrize("series", ["open loop", "closed loop"])
def test_a_moved_figure_is_found(series: str) -> None:
    """Also a small one: a thousandth of a rate."""
    moved = json.loads(json.dumps(GOLDEN))
    moved[series]["qps"] *= 1.001
    with pytest.raises(AssertionError, match=f"{series}, qps"):
        assert_equal(moved, GOLDEN)
