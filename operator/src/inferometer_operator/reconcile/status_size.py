"""A status that the API server takes: scenarios of at most 256 KiB, or the least one.

The API server refuses an object of more than 1.5 MiB for good, and may refuse a smaller one.
"""

from collections.abc import Sequence

from pydantic import TypeAdapter

from inferometer_api.status.condition_reasons import REASONS
from inferometer_api.status.run_status import ConditionType, RunStatus, ScenarioSummary
from inferometer_operator.reconcile.conditions import clip
from inferometer_operator.reconcile.display import median_repeat

SCENARIOS_BYTES = 256 * 1024
"""The most that the scenarios of a status take as JSON."""
_CUTS = ((8, 1000), (4, 400), (2, 200), (1, 100), (0, 0))
"""Sentences of each list and characters of each sentence, ever fewer until all scenarios fit."""
_BEARERS: tuple[ConditionType, ...] = ("Finished", "Failed", "Complete", "Accepted")
_SUMMARIES = TypeAdapter(list[ScenarioSummary])


def fit_status(status: RunStatus) -> RunStatus:
    """Return the status with as much of its scenarios as fits; the same if all fit."""
    if _fits(status.scenarios):
        return status
    return status.model_copy(update={"scenarios": fit_scenarios(status.scenarios)})


def least_status(status: RunStatus, refusal: str) -> RunStatus:
    """Return the least status of a run whose own the API server refuses in these words.

    Phase, operator, times, the wait for nodes, the place of the result, and the conditions without
    their messages: what another operator must know. The last condition that decides, else Accepted,
    has the reason StatusRefused.
    """
    kinds = [each.type for each in status.conditions if each.status == "True"]
    bearer = next((kind for kind in _BEARERS if kind in kinds), None)
    conditions = [
        each.model_copy(
            update={"message": ""}
            if each.type != bearer
            else {
                "reason": "StatusRefused",
                "message": clip(
                    f"{each.reason}. The API server refuses the whole status of this run: "
                    f"{refusal} {REASONS['StatusRefused'].remedy}"
                ),
            }
        )
        for each in status.conditions
    ]
    return RunStatus(
        phase=status.phase,
        operator=status.operator,
        operator_renew_time=status.operator_renew_time,
        start_time=status.start_time,
        waiting_for_nodes=status.waiting_for_nodes,
        completion_time=status.completion_time,
        result=status.result,
        conditions=conditions,
    )


def fit_scenarios(scenarios: Sequence[ScenarioSummary]) -> list[ScenarioSummary]:
    """Return scenarios that take at most 256 KiB: no single steps, sentences cut, repeats folded.

    A list of sentences that is cut ends with the count of those left out. Repeats of a scenario
    are folded into one of them: the median rate among the INVALID ones, else among all. Of more
    different scenarios than a spec can have, the last ones are left out.
    """
    whole = list(scenarios)
    if not _fits(whole):
        whole = [each.model_copy(update={"steps": []}) for each in whole]
    for some in (whole, _folded(whole)):
        if _fits(some):
            return some
        for sentences, characters in _CUTS:
            cut = [_cut(each, sentences, characters) for each in some]
            if _fits(cut):
                return cut
    while not _fits(cut):
        cut = cut[: len(cut) * 9 // 10]
    return cut


def _fits(scenarios: list[ScenarioSummary]) -> bool:
    # Most lists that do not fit are known by their sentences, without writing them.
    sentences = sum(len(text) for each in scenarios for text in (*each.reasons, *each.cautions))
    if sentences > SCENARIOS_BYTES:
        return False
    return len(_SUMMARIES.dump_json(scenarios, exclude_none=True)) <= SCENARIOS_BYTES


def _folded(scenarios: list[ScenarioSummary]) -> list[ScenarioSummary]:
    by_name: dict[str, list[ScenarioSummary]] = {}
    for each in scenarios:
        by_name.setdefault(each.name, []).append(each)
    return [_representative(repeats) for repeats in by_name.values()]


def _representative(repeats: list[ScenarioSummary]) -> ScenarioSummary:
    if len(repeats) == 1:
        return repeats[0]
    found = median_repeat(repeats)
    note = f"Repeat {found.repeat} of {len(repeats)}: the others are in the result document."
    return found.model_copy(update={"cautions": [note, *found.cautions][:16]})


def _cut(each: ScenarioSummary, sentences: int, characters: int) -> ScenarioSummary:
    return each.model_copy(
        update={
            "reasons": _cut_list(each.reasons, sentences, characters),
            # Without sentences, the rules stand for them.
            "reason_rules": each.reason_rules[: sentences if each.reasons else None],
            "cautions": _cut_list(each.cautions, sentences, characters),
        }
    )


def _cut_list(messages: list[str], sentences: int, characters: int) -> list[str]:
    shown = [
        each if len(each) <= characters else f"{each[: characters - 3]}..."
        for each in messages[:sentences]
    ]
    left_out = len(messages) - len(shown)
    return [*shown, f"and {left_out} more"] if left_out else shown
