"""A suite's status that the API server takes: at most 64 KiB, or the least one."""

import re
from collections.abc import Callable

from inferometer_api.suite.status import ScenarioRange, SuiteConditionType, SuiteStatus
from inferometer_operator.reconcile.suite.draft import clip_message, is_true

SUITE_BYTES = 64 * 1024
"""The most that the status of a suite takes as JSON."""
_LEFT_OUT = "Left out: the names are too long for this status. The suite's page has the figures."
_SOME = 5
_SHORT = 200
_SENTENCE = 512
"""Longest `left_out`."""
_PAIRS = 24
"""The newest A/A pairs of a class of nodes that are always kept: the gate arms with 20."""
_BEARERS: tuple[SuiteConditionType, ...] = ("Failed", "Complete", "Accepted")
_LEAST = (
    *("observed_generation", "phase", "operator", "start_time", "completion_time", "plan_sha256"),
    *("systems", "states", "last_schedule_time", "next_schedule_time", "execution"),
    "counted_execution",
)
"""The fields of the least status, next to the conditions."""


def fit_suite_status(status: SuiteStatus) -> SuiteStatus:
    """Return the status with as much of its lists as fits; `left_out` counts what does not.

    First the list of reused runs goes, then most of the current ones, the best and worst cells, all
    but the worst of the gate's figures, old A/A pairs, and the ends of messages. Of what still does
    not fit, the classes of nodes that were measured least recently lose their pairs, and the lists
    go. Systems, states and conditions stay, which take less, whatever the names.
    """
    if _fits(status):
        return status
    cut = status
    for step in _CUTS:
        cut = step(cut)
        if _fits(fitted := cut.model_copy(update={"left_out": _left_out(status, cut)})):
            break
    return fitted


def _fits(status: SuiteStatus) -> bool:
    return len(status.model_dump_json(by_alias=True, exclude_none=True).encode()) <= SUITE_BYTES


def _left_out(whole: SuiteStatus, cut: SuiteStatus) -> str:
    """Return the counts of what is cut, with what was cut before, as a sentence."""
    before, after, earlier = _counts(whole), _counts(cut), _earlier_counts(whole.left_out)
    lost = {name: earlier.get(name, 0) + count - after[name] for name, count in before.items()}
    parts = [f"{count} {name}" for name, count in lost.items() if count]
    return (
        f"Left out of this status, which would be too large: {', '.join(parts)}." if parts else ""
    )


def _earlier_counts(left_out: str) -> dict[str, int]:
    """Return the counts of a sentence of `_left_out`, by what they count."""
    found = re.findall(r"(\d+) ([^,.]+)", left_out.rpartition(": ")[2])
    return {name: int(count) for count, name in found}


def _counts(status: SuiteStatus) -> dict[str, int]:
    gate = status.gate
    return {
        "reused runs": len(status.reused),
        "current runs": len(status.current),
        "best and worst cells": sum(
            each is not None for some in status.scenarios for each in (some.best, some.worst)
        ),
        "slower figures": 0 if gate is None else len(gate.slower),
        "reasons of the gate": 0 if gate is None else len(gate.reasons),
        "INVALID blocks": 0 if gate is None else len(gate.invalid_blocks),
        "classes of nodes with A/A pairs": len(status.anchors),
        "A/A pairs": sum(len(each.ratios_parts_per_million) for each in status.anchors),
    }


def least_suite_status(status: SuiteStatus, refusal: str) -> SuiteStatus:
    """Return the least status of a suite whose own the API server refuses in these words.

    It has what another operator must know: operator, times, plan, states, executions, and the
    conditions. The last condition that decides has the reason StatusRefused; the others have no
    message.
    """
    bearer = next((name for name in _BEARERS if is_true(status, name)), "")
    text = (
        f"The API server refuses the whole status of this suite: {refusal.rstrip('.')}. Correct "
        "what it names: an older CustomResourceDefinition, or a policy."
    )
    kept = {name: getattr(status, name) for name in _LEAST if getattr(status, name) is not None}
    conditions = [
        each.model_copy(
            update={"reason": "StatusRefused", "message": clip_message(f"{each.reason}. {text}")}
            if each.type == bearer
            else {"message": ""}
        )
        for each in status.conditions
    ]
    return SuiteStatus(**kept, conditions=conditions)


def _without_reused(status: SuiteStatus) -> SuiteStatus:
    return status.model_copy(update={"reused": []})


def _with_few_current(status: SuiteStatus) -> SuiteStatus:
    return status.model_copy(update={"current": status.current[:_SOME]})


def _without_ranges(status: SuiteStatus) -> SuiteStatus:
    ranges = [ScenarioRange(name=each.name, unranked=_LEFT_OUT) for each in status.scenarios]
    return status.model_copy(update={"scenarios": ranges})


def _with_short_gate(status: SuiteStatus) -> SuiteStatus:
    if status.gate is None:
        return status
    gate = status.gate.model_copy(
        update={
            "slower": status.gate.slower[:_SOME],
            "invalid_blocks": status.gate.invalid_blocks[:_SOME],
        }
    )
    return status.model_copy(update={"gate": gate})


def _with_new_pairs(status: SuiteStatus) -> SuiteStatus:
    anchors = [
        each.model_copy(
            update={"ratios_parts_per_million": each.ratios_parts_per_million[-_PAIRS:]}
        )
        for each in status.anchors
    ]
    return status.model_copy(update={"anchors": anchors})


def _with_short_messages(status: SuiteStatus) -> SuiteStatus:
    conditions = [
        each.model_copy(update={"message": each.message[:_SHORT]}) for each in status.conditions
    ]
    gate = status.gate
    if gate is not None:
        gate = gate.model_copy(update={"reasons": [text[:_SHORT] for text in gate.reasons[:_SOME]]})
    return status.model_copy(update={"conditions": conditions, "gate": gate})


def _with_classes_that_fit(status: SuiteStatus) -> SuiteStatus:
    """Return the status with the classes of nodes that were measured last."""
    while status.anchors and not _fits(status.model_copy(update={"left_out": "x" * _SENTENCE})):
        kept = status.anchors[max(1, len(status.anchors) // 20) :]
        status = status.model_copy(update={"anchors": kept})
    return status


def _without_lists(status: SuiteStatus) -> SuiteStatus:
    gate = status.gate
    if gate is not None:
        gate = gate.model_copy(update={"slower": [], "reasons": [], "invalid_blocks": []})
    emptied: dict[str, object] = {"current": [], "scenarios": [], "anchors": [], "gate": gate}
    return status.model_copy(update=emptied)


_CUTS: tuple[Callable[[SuiteStatus], SuiteStatus], ...] = (
    _without_reused,
    _with_few_current,
    _without_ranges,
    _with_short_gate,
    _with_new_pairs,
    _with_short_messages,
    _with_classes_that_fit,
    _without_lists,
)
