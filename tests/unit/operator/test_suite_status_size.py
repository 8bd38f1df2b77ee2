"""Whatever its names and numbers, the status of a suite has at most 64 KiB."""

from hypothesis import given, settings
from hypothesis import strategies as st

from inferometer_api.suite.plan_suite import MOST_SYSTEMS
from inferometer_api.suite.status import (
    MOST_PAIRS,
    MOST_PLANNED,
    AnchorPairs,
    CellCounts,
    CellFigure,
    CurrentRun,
    GateStatus,
    JudgedCell,
    ReusedCell,
    ScenarioRange,
    SuiteCondition,
    SuiteDisplay,
    SuiteStatus,
)
from inferometer_operator.reconcile.suite.status_size import SUITE_BYTES, fit_suite_status

_RATIO, _COUNT = 2**31 - 1, 2**53 - 1
_KINDS = ("Accepted", "Complete", "Failed", "Gate", "Finished")


def a_condition(kind: str, message: str) -> SuiteCondition:
    """Return a condition with a long reason."""
    return SuiteCondition.read(
        {
            "type": kind,
            "status": "True",
            "reason": "R" * 253,
            "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
    )


def classes(count: int, pairs: int, ratio: int = 1_000_000) -> list[AnchorPairs]:
    """Return pairs of classes of nodes with names of 253 characters."""
    return [
        AnchorPairs(
            node_class=f"{at:0253d}", cell="c" * 10, ratios_parts_per_million=[ratio] * pairs
        )
        for at in range(count)
    ]


@st.composite
def statuses(draw: st.DrawFn) -> SuiteStatus:
    """Return any status within the bounds of its schema, most of them far too large."""
    letter = draw(st.sampled_from(["a", "\u00e4", "\U0001f600", "\n", "\x01", '"']))
    shown, text = letter * draw(st.integers(0, 253)), letter * draw(st.integers(0, 1024))
    some = draw(st.integers(0, 20))
    figure = CellFigure(cell=shown, run="r" * 253, p50_microseconds=_COUNT, p99_microseconds=_COUNT)
    slower = JudgedCell(
        cell=shown,
        scenario="s" * 63,
        step=letter * 64,
        figure="p50",
        ratio_parts_per_million=_RATIO,
        low_parts_per_million=_RATIO,
        high_parts_per_million=_RATIO,
    )
    gate = GateStatus(
        outcome="INCONCLUSIVE",
        armed=True,
        judged=_COUNT,
        slower=[slower] * some,
        reasons=[text] * min(some, 10),
        invalid_blocks=[shown] * draw(st.integers(0, 50)),
    )
    return SuiteStatus(
        conditions=[a_condition(kind, text) for kind in _KINDS],
        operator="o" * 317,
        plan_sha256="0" * 64,
        systems=["s" * draw(st.integers(1, 317))] * draw(st.integers(0, MOST_SYSTEMS)),
        cells=CellCounts(planned=_COUNT, valid=_COUNT, invalid=_COUNT, failed=_COUNT),
        states="V" * draw(st.integers(0, MOST_PLANNED)),
        current=[CurrentRun(run="r" * 253, cell=shown)] * some,
        reused=[ReusedCell(run="r" * 253, cell=shown, result="0" * 64)] * some,
        scenarios=[ScenarioRange(name="s" * 63, best=figure, worst=figure)]
        * draw(st.integers(0, 32)),
        gate=draw(st.none() | st.just(gate)),
        anchors=classes(draw(st.integers(0, 100)), draw(st.integers(0, MOST_PAIRS)), _RATIO),
        execution="e" * 253,
        counted_execution="e" * 253,
        page="p" * 1024,
        display=SuiteDisplay(cells=letter * 64, problems=letter * 64, gate=letter * 64),
    )


@given(statuses())
@settings(max_examples=60, deadline=None)
def test_any_status_fits(status: SuiteStatus) -> None:
    """As JSON; what the operator works with stays, and what fits stays as it is."""
    fitted = fit_suite_status(status)
    SuiteStatus.read(fitted.model_dump(mode="json", by_alias=True, exclude_none=True))
    size = len(fitted.model_dump_json(by_alias=True, exclude_none=True).encode())
    assert size <= SUITE_BYTES == 64 * 1024
    assert fit_suite_status(fitted) == fitted
    assert (fitted.systems, fitted.states) == (status.systems, status.states)
    assert [each.type for each in fitted.conditions] == list(_KINDS)
    assert (fitted.gate is None) == (status.gate is None)


def test_a_hundred_nodes_with_the_longest_names_fit() -> None:
    """The classes that were measured last keep their pairs, and the status counts the others."""
    names = [f"{at:0253d}" for at in range(MOST_SYSTEMS)]
    fitted = fit_suite_status(SuiteStatus(systems=names, anchors=classes(100, 25)))
    kept = [each.node_class for each in fitted.anchors]
    assert 20 < len(kept) < 100
    assert kept == names[-len(kept) :]
    assert f"{100 - len(kept)} classes of nodes with A/A pairs" in fitted.left_out
    assert len(fitted.anchors[0].ratios_parts_per_million) == 24


def test_a_status_counts_what_it_leaves_out() -> None:
    """And says nothing if it is whole."""
    text = "x" * 253
    whole = SuiteStatus(reused=[ReusedCell(run="r" * 253, cell=text, result="0" * 64)] * 20)
    assert fit_suite_status(whole).left_out == ""
    large = whole.model_copy(update={"anchors": classes(100, 30)})
    assert fit_suite_status(large).left_out.startswith("Left out of this status, which would be ")
    assert "20 reused runs" in fit_suite_status(large).left_out


def test_a_status_that_is_cut_again_keeps_the_counts() -> None:
    """The page is added to a status that was cut at its end: it counts both cuts together."""
    text = "x" * 253
    kept = SuiteStatus(current=[CurrentRun(run="r" * 253, cell=text)] * 20)
    room = SUITE_BYTES - len(kept.model_dump_json(by_alias=True, exclude_none=True)) - 700
    large = {
        "systems": ["s" * 317] * (room // 320),
        "reused": [ReusedCell(run="r" * 253, cell=text, result="0" * 64)] * 20,
    }
    cut = fit_suite_status(kept.model_copy(update=large))
    assert cut.left_out == "Left out of this status, which would be too large: 20 reused runs."
    again = fit_suite_status(cut.model_copy(update={"page": "p" * 1024}))
    assert again.left_out == (
        "Left out of this status, which would be too large: 20 reused runs, 15 current runs."
    )
