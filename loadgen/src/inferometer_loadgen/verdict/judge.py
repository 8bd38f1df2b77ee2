"""Judges a scenario: applies every rule to its steps and conditions."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from inferometer_api.results.result import Finding, Verdict
from inferometer_api.scenarios.table import SCENARIOS
from inferometer_loadgen.schedule.steps import End
from inferometer_loadgen.verdict.measurement import Measurement, ScenarioConditions, Violation
from inferometer_loadgen.verdict.rule_table import RULES, VerdictRule
from inferometer_loadgen.verdict.rules.busy import (
    BUSY_MACHINE,
    OTHER_PROCESSES,
    busy_machine,
    explains,
)

_MOST_STEPS = 8
"""Number of steps that a message names."""


class _StepViolation(NamedTuple):
    """A violation and the label of its step."""

    step: str
    violation: Violation


def judge(
    measurements: Sequence[Measurement],
    conditions: ScenarioConditions,
    rules: Sequence[VerdictRule] = RULES,
) -> Verdict:
    """Return the verdict over the steps of one scenario, by these rules.

    Of a search only the probe at its peak is judged: other probes may exceed what server or client
    can do. A step in which a worker was lost is judged as well, so that the verdict names it.
    """
    judged = _judged_steps(measurements, conditions)
    reasons = list(_reasons(measurements, judged, conditions, rules))
    # The reason BusyMachine says the same, and more.
    said = {OTHER_PROCESSES for each in reasons if each.rule == BUSY_MACHINE}
    return Verdict(
        state="INVALID" if reasons else "VALID",
        reasons=reasons,
        cautions=[
            finding
            for rule in rules
            if rule.effect == "caution" and rule.name not in said
            for finding in _findings(rule, _broken(rule, judged, conditions), len(judged))
        ],
    )


def _judged_steps(
    measurements: Sequence[Measurement], conditions: ScenarioConditions
) -> Sequence[Measurement]:
    if SCENARIOS[conditions.kind].steps != "search":
        return measurements
    at_peak = None if conditions.peak is None else conditions.peak.step
    return [
        each
        for each in measurements
        if each.plan.label == at_peak
        or each.end is End.WORKER_LOST
        or any(worker.lost for worker in each.step.workers)
    ]


def _reasons(
    measurements: Sequence[Measurement],
    judged: Sequence[Measurement],
    conditions: ScenarioConditions,
    rules: Sequence[VerdictRule],
) -> Iterable[Finding]:
    """Yield the reasons in the order of the rules.

    A busy machine comes first, and takes the place of the reasons that it explains.
    """
    broken = {
        rule.name: _broken(rule, judged, conditions) for rule in rules if rule.effect == "reason"
    }
    busy = _busy(broken, measurements, judged)
    steps = {each.step for each in busy}
    for rule in rules:
        left = broken.get(rule.name, [])
        if rule.name == BUSY_MACHINE:
            left = busy
        elif explains(rule.name):
            left = [each for each in left if each.step not in steps]
        yield from _findings(rule, left, len(judged))


def _busy(
    broken: Mapping[str, Sequence[_StepViolation]],
    measurements: Sequence[Measurement],
    judged: Sequence[Measurement],
) -> list[_StepViolation]:
    """Return the steps whose violations a busy machine explains, or may explain.

    The outcome of a search depends on all its probes.
    """
    found = []
    for each in judged:
        label = each.plan.label
        rules = [name for name, some in broken.items() if any(one.step == label for one in some)]
        found += [
            _StepViolation(label, violation) for violation in busy_machine([each.step], rules)
        ]
    if not found:
        rules = [name for name, some in broken.items() if any(not one.step for one in some)]
        steps = [each.step for each in measurements]
        found += [_StepViolation("", violation) for violation in busy_machine(steps, rules)]
    return found


def _broken(
    rule: VerdictRule, measurements: Sequence[Measurement], conditions: ScenarioConditions
) -> list[_StepViolation]:
    found = (
        [] if rule.once is None else [_StepViolation("", each) for each in rule.once(conditions)]
    )
    if rule.per_step is not None:
        for each in measurements:
            found += [
                _StepViolation(each.plan.label, one) for one in rule.per_step(each, conditions)
            ]
    return found


def _findings(rule: VerdictRule, broken: Sequence[_StepViolation], steps: int) -> Iterable[Finding]:
    """Yield the findings of one rule over all steps.

    The same violation in every step belongs to the scenario. Different figures of several steps are
    one finding, that of the worst step; violations without a number stay apart.
    """
    alike: dict[Violation, list[str]] = {}
    for step, violation in broken:
        alike.setdefault(violation, []).append(step)
    by_subject: dict[str, list[_StepViolation]] = {}
    for each in broken:
        if steps > 1 and len(alike[each.violation]) == steps:
            if each.step == alike[each.violation][0]:
                yield _finding(rule, each.violation, "")
        elif each.violation.excess:
            by_subject.setdefault(each.violation.subject, []).append(each)
        else:
            yield _finding(rule, each.violation, each.step)
    for some in by_subject.values():
        worst = max(some, key=lambda each: each.violation.excess)
        labels = list(dict.fromkeys(each.step for each in some))
        yield _finding(rule, worst.violation, worst.step, labels if len(labels) > 1 else ())


def _finding(
    rule: VerdictRule, violation: Violation, step: str, steps: Sequence[str] = ()
) -> Finding:
    """Return the finding; its message says what was found, why it matters and what to do."""
    return Finding(
        rule=rule.name,
        message=f"{violation.sentence}{_among(step, steps)} {rule.why} "
        f"{violation.remedy or rule.remedy}",
        figure=violation.figure,
        limit=violation.limit,
        step=step,
        steps=list(steps),
    )


def _among(step: str, steps: Sequence[str]) -> str:
    """Return a sentence that names the other steps with the same finding."""
    if not steps:
        return ""
    others = [each for each in steps if each != step]
    named, more = others[:_MOST_STEPS], len(others) - _MOST_STEPS
    listed = ", ".join(named) + (f" and {more} more" if more > 0 else "")
    are = "others are" if len(others) > 1 else "other is"
    return f" This is {step}, the worst of {len(steps)} steps; the {are} {listed}."
