"""Statistics over repeats, over a sweep of clients and over the seconds of a warm-up."""

import math
from statistics import stdev

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer_api.results.result import ScenarioResult, Step, Verdict
from inferometer_api.statistics import student_quantile
from inferometer_loadgen.record.steadiness import is_steady
from inferometer_loadgen.record.windows import Second, SecondStatistics
from inferometer_loadgen.search.knee import find_knee
from inferometer_loadgen.search.repeats import repeat_figure, required_repeats, summarize_repeats
from support.steps import Load, a_step


def a_repeat(repeat: int, milliseconds: float) -> ScenarioResult:
    """Return one repeat of a single stream."""
    step = a_step(Load(service_milliseconds=milliseconds, seconds=4, seed=repeat))
    return ScenarioResult(
        name="latency",
        kind="singleStream",
        repeat=repeat,
        seed=41 + repeat,
        steps=[step],
        verdict=Verdict(state="VALID"),
    )


def test_a_figure_over_repeats_has_students_interval() -> None:
    """Geometric mean, 95 % interval and coefficient of variation are those of the textbook."""
    values = [10.0, 12.0, 11.0, 13.0]
    figure = repeat_figure("achievedQps", "", values)
    half = 3.182446 * stdev(map(math.log, values)) / 2
    assert figure.mean == pytest.approx(math.prod(values) ** 0.25)
    assert figure.low == pytest.approx(figure.mean / math.exp(half), rel=1e-6)
    assert figure.high == pytest.approx(figure.mean * math.exp(half), rel=1e-6)
    assert figure.coefficient_of_variation == pytest.approx(math.sqrt(5 / 3) / 11.5)


def test_one_repeat_has_no_interval() -> None:
    """An interval needs two values."""
    figure = repeat_figure("achievedQps", "", [10.0])
    assert (figure.low, figure.high, figure.coefficient_of_variation) == (None, None, None)


def test_varying_repeats_get_advice_on_their_number() -> None:
    """The advice names the figure, its variation and the required number of repeats."""
    found = summarize_repeats([a_repeat(1, 20.0), a_repeat(2, 22.0), a_repeat(3, 21.0)])
    assert (found.name, found.repeats) == ("latency", 3)
    assert {"achievedQps", "p50Nanoseconds", "p99Nanoseconds"} <= {f.name for f in found.figures}
    assert "Set validity.repeats to" in found.advice


def test_the_rate_of_an_open_loop_gets_no_advice() -> None:
    """Its schedule decides the rate, with another seed in each repeat."""

    def advice(scheduled_qps: float | None) -> str:
        steps = [
            a_repeat(1, 20.0)
            .steps[0]
            .model_copy(update={"achieved_qps": rate, "scheduled_qps": scheduled_qps})
            for rate in (40.0, 50.0, 45.0)
        ]
        results = [a_repeat(1, 20.0).model_copy(update={"steps": [step]}) for step in steps]
        assert "achievedQps" in {figure.name for figure in summarize_repeats(results).figures}
        return summarize_repeats(results).advice

    assert advice(None).startswith("The rate varies by 11 %")
    assert advice(45.0) == ""


def test_repeats_alike_need_no_advice() -> None:
    """If every interval is within 5 %, there is no advice."""
    same = a_repeat(1, 20.0)
    found = summarize_repeats([same, same.model_copy(update={"repeat": 2})])
    assert found.advice == ""


def test_repeats_cut_short_are_left_out_and_counted() -> None:
    """The interval is that of whole repeats; the advice names the number of others."""
    whole = [a_repeat(1, 20.0)] * 3
    found = summarize_repeats(whole, cut_short=1)
    assert found.repeats == 3
    assert found.figures == summarize_repeats(whole).figures
    assert found.advice == "One more repeat was cut short and is left out."
    assert summarize_repeats(whole[:1], cut_short=2).advice.startswith(
        "2 more repeats were cut short"
    )


def test_invalid_repeats_are_in_the_means_and_counted() -> None:
    """The advice says that the means include INVALID repeats."""
    same = a_repeat(1, 20.0)
    invalid = same.model_copy(update={"verdict": Verdict(state="INVALID")})
    found = summarize_repeats([same, invalid, same])
    assert found.figures == summarize_repeats([same] * 3).figures
    assert found.advice == "1 of 3 repeats is INVALID, with its figures in the means."
    assert (
        summarize_repeats([invalid], cut_short=1).advice
        == "One more repeat was cut short and is left out."
    )
    assert summarize_repeats([invalid] * 2).advice.startswith(
        "2 of 2 repeats are INVALID, with their"
    )


def test_no_interval_reaches_zero() -> None:
    """However much a figure varies, its bounds are a ratio; useless ones are left out."""
    figure = repeat_figure("p99Nanoseconds", "", [1.0, 1.1, 4.0])
    assert figure.low is not None
    assert figure.high is not None
    assert figure.low > figure.mean / 10
    assert figure.mean**2 == pytest.approx(figure.low * figure.high)
    useless = repeat_figure("p99Nanoseconds", "", [1.0, 30.0])
    assert (useless.low, useless.high) == (None, None)
    assert repeat_figure("achievedQps", "", [0.0, 1.0, 2.0]).mean == 0.0


@given(st.floats(0.001, 0.3))
def test_the_number_of_repeats_needed_is_the_least(variation: float) -> None:
    """That many repeats have an interval within 5 %, and one fewer does not."""
    count = required_repeats(variation)
    if count is None:
        assert variation > 0.25
        return
    assert _half(count, variation) <= 0.05
    assert count == 2 or _half(count - 1, variation) > 0.05


def _half(count: int, variation: float) -> float:
    return student_quantile(0.975, count - 1) * variation / math.sqrt(count)


def clients(number: int, milliseconds: float) -> Step:
    """Return a step of so many clients whose latency is so long."""
    step = a_step(Load(service_milliseconds=milliseconds / number, seconds=2))
    assert step.latency is not None
    latency = step.latency.model_copy(update={"mean_nanoseconds": round(milliseconds * 1e6)})
    return step.model_copy(
        update={
            "label": f"clients {number}",
            "clients": number,
            "latency": latency,
            "achieved_qps": 1000 * number / milliseconds,
        }
    )


def test_the_knee_is_where_the_power_is_greatest() -> None:
    """A server of 4 threads and 10 ms has its knee at 4 clients: beyond it only latency grows."""
    steps = [clients(1, 10), clients(2, 10), clients(4, 10), clients(8, 20), clients(16, 40)]
    knee = find_knee(steps)
    assert knee is not None
    assert (knee.clients, knee.step, knee.last_step) == (4, "clients 4", False)


def test_a_knee_at_the_last_step_is_marked() -> None:
    """If throughput still grows at the last step, the knee may lie beyond it."""
    knee = find_knee([clients(1, 10), clients(2, 10)])
    assert knee is not None
    assert knee.last_step
    assert find_knee([]) is None
    assert find_knee([clients(1, 10)]) is None


def second(count: int, milliseconds: float) -> SecondStatistics:
    """Return a second with so many answers of one latency."""
    tallied = Second()
    tallied.add(np.full(count, round(milliseconds * 1e6), dtype=np.int64))
    return tallied.close(1.0)


def test_a_warm_up_is_steady_once_three_seconds_are_alike() -> None:
    """Three windows within 10 % are steady; two are not enough, and one that differs is not."""
    alike = [second(1000, 5), second(1050, 5), second(1020, 5)]
    assert is_steady(alike, open_loop=False)
    assert not is_steady(alike[:2], open_loop=False)
    assert not is_steady([second(800, 5), *alike[1:]], open_loop=False)
    assert not is_steady([second(0, 5)] * 3, open_loop=False)


@pytest.mark.parametrize(
    ("milliseconds", "clients"),
    [(100, 1), (150, 1), (400, 1), (700, 1), (1500, 1), (400, 3), (2000, 8)],
)
def test_a_slow_server_is_steady_if_its_latency_is(milliseconds: int, clients: int) -> None:
    """One answer more or less per client and second is not a trend."""
    done = [at for at in range(milliseconds, 20_000, milliseconds) for _ in range(clients)]
    seconds = [
        second(sum(at // 1000 == each for at in done), milliseconds) for each in range(1, 20)
    ]
    found = [is_steady(seconds[:last], open_loop=False, clients=clients) for last in range(3, 20)]
    assert all(found[1:])  # the very first seconds of a query of two may have no answer


def test_one_answer_of_each_client_hides_no_change() -> None:
    """Neither a server that becomes slower nor one that stands still is steady."""
    slower = [second(7, 140), second(7, 140), second(6, 170)]
    assert not is_steady(slower, open_loop=False, clients=1)
    stalled = [second(100, 10), second(0, 10), second(0, 10)]
    assert not is_steady(stalled, open_loop=False, clients=1)
    assert not is_steady([second(0, 10)] * 3, open_loop=False, clients=8)
    rising = [second(3, 400), second(8, 400), second(20, 400)]
    assert not is_steady(rising, open_loop=False, clients=8)


def test_an_open_loop_is_steady_by_its_latency() -> None:
    """Random arrivals may differ by chance; the median latency may not."""
    three_seconds = [second(90, 5), second(110, 5), second(100, 5)]
    assert is_steady(three_seconds, open_loop=True)
    assert not is_steady([second(90, 9), *three_seconds[1:]], open_loop=True)
    assert not is_steady([second(9000, 5), second(5000, 5), second(9000, 5)], open_loop=True)
