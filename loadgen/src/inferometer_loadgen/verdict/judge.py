"""Judges a scenario: applies every rule to its steps and conditions."""

from collections.abc import Iterable, Sequence

from inferometer_api.results.result import Finding, Verdict
from inferometer_api.scenarios.table import SCENARIOS
from inferometer_loadgen.schedule.steps import End
from inferometer_loadgen.verdict.measurement import Measurement, ScenarioConditions, Violation
from inferometer_loadgen.verdict.rule_table import RULES, VerdictRule


def judge(measurements: Sequence[Measurement], conditions: ScenarioConditions) -> Verdict:
    """Return the verdict over the steps of one scenario.

    Of a search only the probe at its peak is judged: other probes may exceed what server or client
    can do. A step in which a worker was lost is judged as well, so that the verdict names it.
    """
    judged = _judged_steps(measurements, conditions)
    reasons = list(_findings("reason", judged, conditions))
    return Verdict(
        state="INVALID" if reasons else "VALID",
        reasons=reasons,
        cautions=list(_findings("caution", judged, conditions)),
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


def _findings(
    effect: str, measurements: Sequence[Measurement], conditions: ScenarioConditions
) -> Iterable[Finding]:
    for rule in RULES:
        if rule.effect != effect:
            continue
        if rule.once is not None:
            for violation in rule.once(conditions):
                yield _finding(rule, violation, "")
        if rule.per_step is not None:
            found = [list(rule.per_step(each, conditions)) for each in measurements]
            if found[1:] and all(each == found[0] for each in found):
                # The same violation in every step is reported once, for the scenario.
                for violation in found[0]:
                    yield _finding(rule, violation, "")
                continue
            for measurement, violations in zip(measurements, found, strict=True):
                for violation in violations:
                    yield _finding(rule, violation, measurement.plan.label)


def _finding(rule: VerdictRule, violation: Violation, step: str) -> Finding:
    """Return the finding; its message says what was found, why it matters and what to do."""
    return Finding(
        rule=rule.name,
        message=f"{violation.sentence} {rule.why} {rule.remedy}",
        figure=violation.figure,
        limit=violation.limit,
        step=step,
    )
