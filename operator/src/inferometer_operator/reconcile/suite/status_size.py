"""A suite's status that the API server takes: at most 64 KiB, or the least one."""

from collections.abc import Callable

from inferometer_api.suite.status import ScenarioRange, SuiteConditionType, SuiteStatus
from inferometer_operator.reconcile.suite.draft import clip_message, is_true

SUITE_BYTES = 64 * 1024
"""The most that the status of a suite takes as JSON."""
_LEFT_OUT = "Left out: the names are too long for this status. The suite's page has the figures."
_SOME = 5
_SHORT = 200
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
    """Return the status without as much of what is only shown as must go for it to fit.

    First the list of reused runs goes, then most of the current ones, the best and worst cells, all
    but the worst of the gate's figures, old A/A pairs, and the ends of messages. Systems, states
    and conditions stay.
    """
    for cut in _CUTS:
        size = len(status.model_dump_json(by_alias=True, exclude_none=True).encode())
        if size <= SUITE_BYTES:
            return status
        status = cut(status)
    return status


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
    return status.model_copy(update={"conditions": conditions})


_CUTS: tuple[Callable[[SuiteStatus], SuiteStatus], ...] = (
    _without_reused,
    _with_few_current,
    _without_ranges,
    _with_short_gate,
    _with_new_pairs,
    _with_short_messages,
)
