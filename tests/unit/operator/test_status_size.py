"""Whatever is measured, a status is small enough for the API server."""

from hypothesis import given, settings
from hypothesis import strategies as st

from inferometer_api.results.result import Finding
from inferometer_api.results.scenario_summary import scenario_summary
from inferometer_api.results.verdict_sentences import SharedReason, shared_reasons
from inferometer_api.status.run_status import RunStatus, ScenarioSummary, StepSummary
from inferometer_operator.reconcile.status_size import SCENARIOS_BYTES, fit_scenarios, fit_status
from support.condition_rows import VALID, measuring

_MOST = 2**53 - 1
_FIGURES = (
    "queries",
    "errors",
    "peak_milli_qps",
    "achieved_milli_qps",
    "scheduled_milli_qps",
    "p50_microseconds",
    "p90_microseconds",
    "p99_microseconds",
    "p999_microseconds",
    "microjoules_per_inference",
    "net_microjoules_per_inference",
)


@st.composite
def _lists(draw: st.DrawFn) -> list[ScenarioSummary]:
    """Draw a few sizes, and fill a list with them: what counts is how large it is."""
    repeats = draw(st.integers(1, 100))
    names = draw(st.integers(1, 3200 // repeats))
    letter = draw(st.sampled_from(["a", "\u00e4", "\U0001f600", "\n", "\x01", '"']))
    lengths = st.lists(st.integers(0, 4096), max_size=16)
    reasons = [letter * length for length in draw(lengths)]
    cautions = [letter * length for length in draw(lengths)]
    figures = dict.fromkeys(_FIGURES, draw(st.sampled_from([None, 0, 12_345, _MOST])))
    figures = {**figures, "queries": figures["queries"] or 0, "errors": figures["errors"] or 0}
    every = draw(st.integers(1, 5))
    summary = ScenarioSummary(name="x", verdict="VALID", step=letter * draw(st.integers(0, 64)))
    steps = [StepSummary(step=letter * 64, p50_microseconds=_MOST)] * draw(st.integers(0, 32))
    return [
        summary.model_copy(
            update={
                "name": f"{name:063d}",
                "repeat": repeat,
                "verdict": "INVALID" if repeat % every == 0 else "VALID",
                "reasons": reasons,
                "reason_rules": ["R" * 64] * len(reasons),
                "cautions": cautions,
                "steps": steps,
                **figures,
            }
        )
        for name in range(names)
        for repeat in range(1, repeats + 1)
    ]


@given(scenarios=_lists())
@settings(max_examples=25, deadline=None)
def test_any_scenarios_fit(scenarios: list[ScenarioSummary]) -> None:
    """As JSON in UTF-8; what fits stays as it is, and the first scenarios keep their verdict."""
    fitted = fit_scenarios(scenarios)
    status = RunStatus(scenarios=fitted)
    RunStatus.model_validate(status.model_dump(mode="json", exclude_none=True))
    size = len(status.model_dump_json(exclude_none=True).encode()) - len(
        RunStatus().model_dump_json(exclude_none=True)
    )
    assert size <= 256 * 1024
    assert fit_scenarios(fitted) == fitted
    invalid = {each.name for each in scenarios if each.verdict == "INVALID"}
    names = [each.name for each in fitted]
    assert {each.name for each in fitted if each.verdict == "INVALID"} == invalid & set(names)
    assert names == [each.name for each in scenarios][: len(names)] or len(names) == len(set(names))
    if len({each.name for each in scenarios}) <= 32:
        assert set(names) == {each.name for each in scenarios}


def test_sentences_are_cut_with_a_count() -> None:
    """The figures of every repeat stay if they fit without them."""
    one = _summary(reasons=["r" * 4096] * 16)
    fitted = fit_scenarios([one] * 100)
    assert len(fitted) == 100
    assert fitted[0].reasons[-1] == "and 12 more"
    assert [len(each) for each in fitted[0].reasons[:-1]] == [400] * 4
    assert fitted[0].queries == one.queries


def test_figures_of_single_steps_go_before_any_sentence() -> None:
    """People read sentences; the gate of a suite says which scenario it cannot judge."""
    steps = [
        StepSummary(step=f"clients {at}" + "x" * 50, achieved_milli_qps=10**9) for at in range(32)
    ]
    one = _summary(steps=steps, cautions=["c"] * 16)
    assert fit_scenarios([one] * 10) == [one] * 10
    assert fit_scenarios([one] * 100) == [one.model_copy(update={"steps": []})] * 100


def test_no_rule_stands_for_the_count_of_those_left_out() -> None:
    """Each sentence has its own rule, however few are shown."""
    rules = [f"Rule{number}" for number in range(1, 13)]
    one = _summary(reasons=["r" * 4096] * 12, reason_rules=rules)
    (fitted, *_) = fit_scenarios([one] * 10)
    assert fitted.reasons[-1] == "and 4 more"
    assert fitted.reason_rules == rules[:8]
    assert shared_reasons([fitted])[-1] == SharedReason(("latency",), "and 4 more", "")
    (bare, *_) = fit_scenarios([_summary(reason_rules=rules, cautions=["c" * 4096] * 16)] * 10)
    assert bare.cautions[-1] == "and 8 more"
    assert bare.reason_rules == rules


def test_no_rule_stands_for_the_reasons_that_only_the_document_has() -> None:
    """A status lists 16; the last of more counts the rest."""
    (result, *_) = VALID.scenarios
    for count, shown in ((16, 16), (17, 15), (40, 15)):
        found = [
            Finding(rule=f"Rule{n}", message=f"Reason {n}.", figure="1", limit="2")
            for n in range(count)
        ]
        verdict = result.verdict.model_copy(update={"reasons": found})
        summary = scenario_summary(result.model_copy(update={"verdict": verdict}))
        assert len(summary.reasons) == 16
        assert summary.reason_rules == [f"Rule{n}" for n in range(shown)]


def test_repeats_are_folded_to_the_median_of_the_worst() -> None:
    """A scenario of which one repeat is INVALID stays INVALID."""
    repeats = [
        _summary(repeat=number, achieved_milli_qps=number, verdict=verdict)
        for number in range(1, 101)
        for verdict in ("INVALID" if number % 10 == 0 else "VALID",)
    ]
    others = [_summary(name=f"s{number}", repeat=1) for number in range(31)]
    many = [*repeats, *(each for each in others for _ in range(100))]
    fitted = fit_scenarios(many)
    assert [each.name for each in fitted] == ["latency", *(each.name for each in others)]
    assert (fitted[0].verdict, fitted[0].repeat) == ("INVALID", 50)
    assert fitted[0].cautions[0] == "Repeat 50 of 100: the others are in the result document."


def test_what_fits_stays_as_it_is() -> None:
    """Nothing is cut that need not be."""
    status = RunStatus(scenarios=[_summary()] * 20)
    assert fit_status(status) is status


def test_the_status_of_a_plan_fits_and_the_plan_comes_to_rest() -> None:
    """The load generator goes on reporting the whole."""
    cluster = measuring()
    large = [_summary(repeat=number, reasons=["r" * 4096] * 16) for number in range(1, 101)]
    cluster.measure(0.6, scenarios=large)
    writes = len(cluster.writes)
    cluster.later(10)
    assert len(cluster.writes) == writes
    assert len(str(cluster.status()["scenarios"])) <= SCENARIOS_BYTES


def _summary(**members: object) -> ScenarioSummary:
    return scenario_summary(VALID.scenarios[0]).model_copy(update=members)
