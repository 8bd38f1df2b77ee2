"""Can the figures of a scenario be trusted, and was what was asked met?

`RULES` is the one table of rules (INVALID) and cautions (VALID, but); docs/reference/verdict.md is
held to it by a test.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from inferometer_api.result import Finding, Verdict
from inferometer_loadgen.verdict import breaches, breaches_of_nodes
from inferometer_loadgen.verdict.breaches import Breach, Conditions, Measurement


@dataclass(frozen=True, slots=True)
class Rule:
    """A named rule: INVALID where it is broken; or a caution."""

    name: str
    effect: Literal["reason", "caution"]
    limit: str
    """The limit in words, as the documentation has it."""
    remedy: str
    per_step: Callable[[Measurement, Conditions], Iterator[Breach]] | None = None
    """Yields a breach where a step breaks it."""
    once: Callable[[Conditions], Iterator[Breach]] | None = None
    """The same for a condition of the whole scenario."""


def judge(measurements: Sequence[Measurement], conditions: Conditions) -> Verdict:
    """Return the verdict over the steps of one scenario."""
    reasons = list(_findings("reason", measurements, conditions))
    return Verdict(
        state="INVALID" if reasons else "VALID",
        reasons=reasons,
        cautions=list(_findings("caution", measurements, conditions)),
    )


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


RULES: tuple[Rule, ...] = (
    Rule(
        name="EndedEarly",
        effect="reason",
        limit="nothing but the run's own limits ends a measurement",
        remedy="Run it again to its end.",
        once=breaches.ended_early,
    ),
    Rule(
        name="NoReply",
        effect="reason",
        limit="at least one query is answered",
        remedy="Look at the errors by kind and at the server's log.",
        per_step=breaches.no_reply,
    ),
    Rule(
        name="MinDuration",
        effect="reason",
        limit="validity.minDurationSeconds (in batch an equal share of it for each size)",
        remedy="Let it run longer.",
        per_step=breaches.min_duration,
    ),
    Rule(
        name="MinQueries",
        effect="reason",
        limit="validity.minQueries (in batch an equal share of it for each size, in samples, and "
        "at least 10 queries)",
        remedy="Raise validity.maxDurationSeconds, or ask for fewer queries.",
        per_step=breaches.min_queries,
    ),
    Rule(
        name="ErrorRate",
        effect="reason",
        limit="at most 0.1 % of the queries fail",
        remedy="Look at the errors by kind and at the server's log.",
        per_step=breaches.error_rate,
    ),
    Rule(
        name="LatencyBound",
        effect="reason",
        limit="the scenario's percentile of the latency is within latencyBoundMicroseconds",
        remedy="Lower the rate, or give the server more.",
        per_step=breaches.latency_bound,
    ),
    Rule(
        name="AchievedRate",
        effect="reason",
        limit="at least 99 % of the scheduled rate is worked off",
        remedy="Lower the rate: the server does not keep up with it.",
        per_step=breaches.achieved_rate,
    ),
    Rule(
        name="DispatchLag",
        effect="reason",
        limit="at the percentile that is asked (P99 where none is) the dispatch lag is within 5 % "
        "of the latency, or 1 ms where that is more",
        remedy="Give the load generator a core of its own.",
        per_step=breaches.dispatch_lag,
    ),
    Rule(
        name="ServerRestarted",
        effect="reason",
        limit="one server process answers from the first query to the last",
        remedy="Look for the cause in the server's log.",
        once=breaches.restarted,
    ),
    Rule(
        name="SmallSample",
        effect="caution",
        limit="the percentile (P99 where none is asked) has 95 % confidence bounds on both sides",
        remedy="Raise validity.minQueries.",
        per_step=breaches.small_sample,
    ),
    Rule(
        name="ConnectionWait",
        effect="caution",
        limit="at most 1 % of the queries wait for a connection with room",
        remedy="Raise load.connections, unless so many are what you mean to measure.",
        per_step=breaches.connection_wait,
    ),
    Rule(
        name="ClientCpu",
        effect="caution",
        limit="the load generator uses at most 0.9 of a core",
        remedy="Lower the rate, or use larger requests.",
        per_step=breaches.client_cpu,
    ),
    Rule(
        name="ServerColocated",
        effect="caution",
        limit="server and load generator run on different machines",
        remedy="Measure in a cluster of several nodes, or leave the load generator a core of its "
        "own.",
        once=breaches.colocated,
    ),
    Rule(
        name="ServerNotGuaranteed",
        effect="caution",
        limit="every server pod is of the quality-of-service class Guaranteed",
        remedy="See which admission webhook or LimitRange changes the pod's resources: requests "
        "must equal limits in every container.",
        once=breaches.not_guaranteed,
    ),
    Rule(
        name="ComputeFellBack",
        effect="caution",
        limit="with device GPU every compute node of the graph runs on the GPU",
        remedy="See server.nodesByProvider in the result, and export the model without these "
        "operators.",
        once=breaches.fell_back,
    ),
    Rule(
        name="ServerThrottled",
        effect="caution",
        limit="the CPU limit of the servers withholds at most 1 % of the CPU time that they could "
        "have used",
        remedy="Raise server.resources.cpu, or lower server.threads.",
        per_step=breaches_of_nodes.throttled,
    ),
    Rule(
        name="CpuSteal",
        effect="caution",
        limit="the hypervisor gives at most 1 % of the CPU time of the servers' node to others",
        remedy="Measure on a machine, or a virtual one, whose CPUs are its own.",
        per_step=breaches_of_nodes.steal,
    ),
    Rule(
        name="GpuThrottled",
        effect="caution",
        limit="the clock of a GPU is held down in at most 10 % of the samples",
        remedy="Look at its power limit and its cooling; the reasons are NVML's.",
        per_step=breaches_of_nodes.gpu_throttled,
    ),
    Rule(
        name="EnergyUnavailable",
        effect="caution",
        limit="with telemetry.power: Auto the servers' nodes have agents with sources of energy",
        remedy="Set telemetry.power: Disabled where energy is not needed.",
        per_step=breaches_of_nodes.energy_unavailable,
    ),
    Rule(
        name="EnergyIncomplete",
        effect="caution",
        limit="the energy covers the CPUs of the servers' nodes and the GPUs that they run on, "
        "over just the window",
        remedy="See step.energy.notCovered in the result for what is left out.",
        per_step=breaches_of_nodes.energy_incomplete,
    ),
)
"""Every rule, in the order in which findings are told."""
