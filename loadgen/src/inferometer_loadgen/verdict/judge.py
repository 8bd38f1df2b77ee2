"""Can the figures of a scenario be trusted, and was what was asked met?"""

from collections.abc import Iterable, Sequence

from inferometer_api.results.result import Finding, Verdict
from inferometer_loadgen.schedule.steps import End
from inferometer_loadgen.verdict.breaches import Conditions, Measurement
from inferometer_loadgen.verdict.rules import RULES, Rule


def judge(measurements: Sequence[Measurement], conditions: Conditions) -> Verdict:
    """Return the verdict over the steps of one scenario; of a search, over the probe at its peak.

    The other probes of `findPeak` may well be more than the server or the client can do; but the
    step in which a worker was lost is judged, so that the verdict names the worker.
    """
    judged = _judged(measurements, conditions)
    reasons = list(_findings("reason", judged, conditions))
    return Verdict(
        state="INVALID" if reasons else "VALID",
        reasons=reasons,
        cautions=list(_findings("caution", judged, conditions)),
    )


def _judged(measurements: Sequence[Measurement], conditions: Conditions) -> Sequence[Measurement]:
    if conditions.kind != "findPeak":
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
    effect: str, measurements: Sequence[Measurement], conditions: Conditions
) -> Iterable[Finding]:
    for rule in RULES:
        if rule.effect != effect:
            continue
        if rule.once is not None:
            for sentence, figure, limit in rule.once(conditions):
                yield _finding(rule, sentence, figure, limit, "")
        if rule.per_step is not None:
            found = [list(rule.per_step(each, conditions)) for each in measurements]
            if found[1:] and all(each == found[0] for each in found):
                # What holds of every step in the same words is told of the scenario.
                for breach in found[0]:
                    yield _finding(rule, *breach, step="")
                continue
            for measurement, broken in zip(measurements, found, strict=True):
                for breach in broken:
                    yield _finding(rule, *breach, step=measurement.plan.label)


def _finding(rule: Rule, sentence: str, figure: str, limit: str, step: str) -> Finding:
    message = f"{sentence} {rule.remedy}"
    return Finding(rule=rule.name, message=message, figure=figure, limit=limit, step=step)
