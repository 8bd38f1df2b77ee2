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


@dataclass(frozen=True, slots=True)
class RuleFindings:
    """Every finding of one rule in a result."""

    rule: str
    findings: tuple[LocatedFinding, ...]
    """Different messages, in the order of the scenarios."""

    @property
    def first(self) -> LocatedFinding:
        """The first finding, which stands for all of them."""
        return self.findings[0]

    @property
    def places(self) -> tuple[tuple[int, str], ...]:
        """Every scenario or step that the rule applies to."""
        return tuple(dict.fromkeys(place for each in self.findings for place in each.places))


def by_rule(findings: Sequence[LocatedFinding]) -> list[RuleFindings]:
    """Return findings with those of one rule together."""
    found: dict[str, list[LocatedFinding]] = {}
    for each in findings:
        found.setdefault(each.finding.rule, []).append(each)
    return [RuleFindings(rule, tuple(some)) for rule, some in found.items()]


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
            step = f"in {len(finding.steps)} steps" if finding.steps else finding.step
            place = " ".join(part for part in (entry_name(result), step) if part)
            key = (finding.rule, finding.message)
            known = located.get(key, LocatedFinding(finding, ()))
            located[key] = LocatedFinding(known.finding, (*known.places, (index, place)))
    return list(located.values())
