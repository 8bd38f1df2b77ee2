"""The columns of `kubectl get` agree with the conditions and show the headline scenario."""

from typing import Any, Literal

import pytest

from inferometer_api.plan.reports import ProgressReport
from inferometer_api.spec.run import BenchmarkRun
from inferometer_api.spec.scenario import Scenario
from inferometer_api.status.run_status import Condition, Display, RunStatus, ScenarioSummary
from inferometer_operator.reconcile.display import live_figures, milliseconds, with_display
from support.runs import a_run

_Member = dict[str, Any]
_LATENCY: _Member = {"name": "latency", "singleStream": {}}
_TRAFFIC: _Member = {"name": "traffic", "server": {"targetQps": 5}}
_SWEEP: _Member = {"name": "sweep", "concurrency": {"clients": [1, 2]}}
_SEARCH: _Member = {"name": "search", "findPeak": {"latencyBoundMicroseconds": 1000}}


def _scenarios(*members: _Member) -> list[Scenario]:
    return BenchmarkRun.model_validate(a_run(scenarios=list(members))).spec.scenarios


def _summary(
    name: str, verdict: Literal["VALID", "INVALID"] = "VALID", **figures: Any
) -> ScenarioSummary:
    return ScenarioSummary.read({"name": name, "verdict": verdict, **figures})


def _status(
    *scenarios: ScenarioSummary, valid: tuple[str, str] | None, ended: str = "Complete"
) -> RunStatus:
    now = "2026-01-01T00:00:00Z"
    found = [] if valid is None else [("Valid", *valid)]
    conditions = [
        Condition.read(
            {"type": kind, "status": status, "reason": reason, "lastTransitionTime": now}
        )
        for kind, status, reason in (*found, (ended, "True", "Measured"))
    ]
    return RunStatus(conditions=conditions, scenarios=list(scenarios), nodes=["node-a"])


def _shown(status: RunStatus, *members: _Member) -> Display:
    display = with_display(status, _scenarios(*members)).display
    assert display is not None
    return display


_INVALID = ("False", "Invalid")
_ALL_VALID = ("True", "AllValid")


@pytest.mark.parametrize("first", ["VALID", "INVALID"])
def test_an_invalid_run_shows_an_invalid_scenario(first: Literal["VALID", "INVALID"]) -> None:
    """Whichever scenario is INVALID, the line says so, with that scenario's figures."""
    second: Literal["VALID", "INVALID"] = "INVALID" if first == "VALID" else "VALID"
    status = _status(_summary("latency", first), _summary("traffic", second), valid=_INVALID)
    shown = _shown(status, _LATENCY, _TRAFFIC)
    assert (shown.valid, shown.scenario) == (
        "INVALID",
        "latency" if first == "INVALID" else "traffic",
    )


@pytest.mark.parametrize(
    ("members", "headline"),
    [
        ((_LATENCY, _TRAFFIC), "latency"),
        ((_TRAFFIC, _LATENCY), "traffic"),
        ((_LATENCY, _SWEEP), "sweep"),
        ((_LATENCY, _SWEEP, _SEARCH, _TRAFFIC), "search"),
    ],
)
def test_the_headline_is_a_search_or_else_the_first(
    members: tuple[_Member, ...], headline: str
) -> None:
    """A findPeak goes before a concurrency, and this before the first of the others."""
    measured = [_summary(str(each["name"])) for each in members]
    assert _shown(_status(*measured, valid=_ALL_VALID), *members).scenario == headline


def test_a_run_that_failed_has_no_verdict_and_no_live_figures() -> None:
    """The headline is one of the measured scenarios; without one there are no figures."""
    none = ("False", "NotComplete")
    status = _status(_summary("latency", "INVALID"), valid=none, ended="Failed")
    shown = _shown(status, _LATENCY, _SEARCH)
    assert (shown.scenario, shown.valid) == ("latency", None)
    live = Display(scenario="latency", qps="9.9", p99="1.00ms")
    empty = _status(valid=none, ended="Failed").model_copy(update={"display": live})
    assert _shown(empty, _LATENCY) == Display(nodes="node-a")


def test_figures_are_those_of_one_step_and_one_repeat() -> None:
    """Of repeats the one with the median rate counts; a figure that it lacks is left out."""
    repeats = [
        _summary("sweep", step=f"clients {rate}", achievedMilliQps=rate * 1000, repeat=rate)
        for rate in (3, 1, 2)
    ]
    assert _shown(_status(*repeats, valid=_ALL_VALID), _SWEEP) == Display(
        scenario="sweep", step="clients 2", valid="VALID", qps="2.0", nodes="node-a"
    )
    figures: _Member = {
        "achievedMilliQps": 47_251,
        "p99Microseconds": 10_000,
        "microjoulesPerInference": 1_234_567,
    }
    status = _status(_summary("latency", **figures), valid=_ALL_VALID)
    shown = _shown(status, _LATENCY)
    assert (shown.qps, shown.p99, shown.joules_per_inference) == ("47.3", "10.0ms", "1.23J")


def test_live_figures_of_another_step_are_dropped() -> None:
    """A new step shows nothing until its first second; within a step the last figures stay."""
    first = live_figures(_progress("batch 1", qps=5.0, p99_nanoseconds=1_000_000), None)
    assert (first.step, first.qps, first.p99) == ("batch 1", "5.0", "1.00ms")
    assert live_figures(_progress("batch 1"), first) == first
    assert live_figures(_progress("batch 2"), first) == Display(scenario="b", step="batch 2")


def _progress(step: str, **figures: float) -> ProgressReport:
    return ProgressReport.model_validate(
        {"stage": "Measuring", "scenario": "b", "step": step, "scenario_count": 1, **figures},
        by_name=True,
    )


@pytest.mark.parametrize(
    ("nodes", "shown"),
    [
        ([], None),
        (["a", "b"], "a, b"),
        (["n" * 40, "m" * 40], f"{'n' * 40} (+1)"),
        (["n" * 80], "n" * 64),
        ([f"{'n' * 80}{number}" for number in range(16)], f"{'n' * 58} (+15)"),
    ],
)
def test_many_nodes_are_counted(nodes: list[str], shown: str | None) -> None:
    """A column holds 64 characters."""
    status = _status(valid=None).model_copy(update={"nodes": nodes})
    display = with_display(status, []).display
    assert (None if display is None else display.nodes) == shown


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [(9_990, "9.99ms"), (10_000, "10.0ms"), (99_900, "99.9ms"), (100_000, "100ms")],
)
def test_a_latency_has_three_digits(microseconds: float, text: str) -> None:
    """Columns are narrow."""
    assert milliseconds(microseconds) == text
