"""Reasons and cautions of a result, each listed once with its scenarios."""

from collections.abc import Sequence
from dataclasses import dataclass

from inferometer_api.results.result import Finding, ResultDocument, ScenarioResult


@dataclass(frozen=True, slots=True)
class LocatedFinding:
    """A finding and every scenario or step that it applies to."""

    finding: Finding
    places: tuple[tuple[int, str], ...]
    """The index of a scenario in the document, and its name with the step."""


def entry_name(result: ScenarioResult) -> str:
    """Return a scenario's name, with the number of its repeat if it is a later one."""
    return result.name if result.repeat == 1 else f"{result.name} (repeat {result.repeat})"


def reasons_of(document: ResultDocument) -> list[LocatedFinding]:
    """Return why scenarios are INVALID; a reason shared by several scenarios is listed once."""
    return _once(document.scenarios, [result.verdict.reasons for result in document.scenarios])


def cautions_of(document: ResultDocument) -> list[LocatedFinding]:
    """Return the conditions under which the figures hold; shared ones are listed once."""
    return _once(document.scenarios, [result.verdict.cautions for result in document.scenarios])


def _once(
    results: Sequence[ScenarioResult], findings: Sequence[Sequence[Finding]]
) -> list[LocatedFinding]:
    located: dict[tuple[str, str], LocatedFinding] = {}
    for index, (result, found) in enumerate(zip(results, findings, strict=True)):
        for finding in found:
            place = " ".join(part for part in (entry_name(result), finding.step) if part)
            key = (finding.rule, finding.message)
            known = located.get(key, LocatedFinding(finding, ()))
            located[key] = LocatedFinding(known.finding, (*known.places, (index, place)))
    return list(located.values())
