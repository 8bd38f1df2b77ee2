"""Sentences about the verdict of a run, shared by the operator and the command line."""

from collections.abc import Iterable
from typing import NamedTuple

from inferometer_api.status.run_status import ScenarioSummary


class SharedReason(NamedTuple):
    """One reason for INVALID, with the scenarios that have it."""

    scenarios: tuple[str, ...]
    message: str
    """That of the first of them."""
    rule: str
    """Empty if it is not known."""


def shared_reasons(summaries: Iterable[ScenarioSummary]) -> list[SharedReason]:
    """Return the reasons of scenarios, each rule once.

    A summary that was shortened may have only the names of its rules.
    """
    found: dict[str, SharedReason] = {}
    for each in summaries:
        messages = each.reasons or [f"{rule}." for rule in each.reason_rules]
        rules = [*each.reason_rules, *[""] * len(messages)]
        for rule, message in zip(rules, messages, strict=False):
            known = found.get(rule or message, SharedReason((), message, rule))
            names = dict.fromkeys((*known.scenarios, each.name))
            found[rule or message] = known._replace(scenarios=tuple(names))
    return list(found.values())


def scenario_count(count: int) -> str:
    """Return "1 scenario" or "3 scenarios"."""
    return "1 scenario" if count == 1 else f"{count} scenarios"


def every_scenario(count: int) -> str:
    """Return the subject of a sentence about all scenarios of a run, with its verb."""
    match count:
        case 1:
            return "The scenario is"
        case 2:
            return "Both scenarios are"
        case _:
            return f"All {count} scenarios are"


def invalid_sentence(invalid: int, scenarios: int) -> str:
    """Return how many scenarios of a run are invalid."""
    if invalid >= scenarios:
        return f"{every_scenario(scenarios)} invalid."
    verb = "is" if invalid == 1 else "are"
    return f"{invalid} of {scenario_count(scenarios)} {verb} invalid."


def valid_sentence(scenarios: int, cautions: int) -> str:
    """Return that all scenarios of a run are valid, with the number of distinct cautions."""
    note = {0: "", 1: ", with one caution"}.get(cautions, f", with {cautions} cautions")
    return f"{every_scenario(scenarios)} valid{note}."
