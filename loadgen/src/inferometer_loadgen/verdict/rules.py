"""Which rules are there, what breaks each, and what is to be done then?

`RULES` is the one table of rules (INVALID) and cautions (VALID, but); docs/reference/verdict.md is
held to it by a test.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from inferometer_loadgen.verdict import (
    breaches,
    breaches_of_client,
    breaches_of_fleet,
    breaches_of_latency,
    breaches_of_nodes,
    breaches_of_search,
    breaches_of_silence,
)
from inferometer_loadgen.verdict.breaches import Broken, Conditions, Measurement


@dataclass(frozen=True, slots=True)
class Rule:
    """A named rule: INVALID where it is broken; or a caution."""

    name: str
    effect: Literal["reason", "caution"]
    limit: str
    """The limit in words, as the documentation has it."""
    source: str
    """Where the limit comes from; where it is our own choice, `chosen:` and why just so."""
    remedy: str
    per_step: Callable[[Measurement, Conditions], Broken] | None = None
    """Yields a breach where a step breaks it."""
    once: Callable[[Conditions], Broken] | None = None
    """The same for a condition of the whole scenario."""


RULES: tuple[Rule, ...] = (
    Rule(
        name="EndedEarly",
        effect="reason",
        limit="nothing but the run's own limits ends a measurement",
        source="by definition: what something else ended is another run than was asked",
        remedy="Run it again to its end.",
        once=breaches.ended_early,
    ),
    Rule(
        name="WorkerLost",
        effect="reason",
        limit="every worker of a fleet lasts to the end",
        source="by definition: the load that was asked is that of all workers",
        remedy="Look for the cause in the worker's log, and run it again.",
        per_step=breaches_of_fleet.worker_lost,
    ),
    Rule(
        name="NoReply",
        effect="reason",
        limit="at least one query is answered",
        source="by definition: a latency takes an answer",
        remedy="Look at the errors by kind and at the server's log.",
        per_step=breaches.no_reply,
    ),
    Rule(
        name="MinDuration",
        effect="reason",
        limit="validity.minDurationSeconds (an equal share of it for each step of batch and "
        "concurrency), with rules MLPerf at least MLPerf's own; a probe of findPeak has no such "
        "limit",
        source="60 s by default: MLPerf Inference v0.5 (mlperf.conf); with rules MLPerf its "
        "inference rules and mlperf.conf of LoadGen 6.0.17; chosen: equal shares, so that a sweep "
        "takes no longer than one step",
        remedy="Let it run longer; in offline ask for more samples.",
        per_step=breaches.min_duration,
    ),
    Rule(
        name="MinQueries",
        effect="reason",
        limit="validity.minQueries (an equal share of it for each step of batch, in samples, and "
        "of concurrency, and at least 10 queries), with rules MLPerf at least MLPerf's own; of a "
        "trace all its queries",
        source="1,024 by default: singleStream of MLPerf Inference v0.5 (mlperf.conf); with rules "
        "MLPerf mlperf.conf and test_settings.h of LoadGen 6.0.17; chosen: 10 a step, since a "
        "median of fewer is chance",
        remedy="Raise validity.maxDurationSeconds, or ask for fewer queries.",
        per_step=breaches.min_queries,
    ),
    Rule(
        name="ErrorRate",
        effect="reason",
        limit="at most 0.1 % of the queries fail",
        source="chosen: a tenth of what lies beyond the P99, so that failed queries, which are in "
        "no latency, hide no more of it",
        remedy="Look at the errors by kind and at the server's log.",
        per_step=breaches.error_rate,
    ),
    Rule(
        name="RepliesChanged",
        effect="reason",
        limit="every reply that is looked at has the outputs' names, types and shapes of the model",
        source="the Open Inference Protocol (V2), by which a reply has the outputs that the "
        "model's metadata name; chosen: not one may differ, since few are looked at",
        remedy="Look at the error's example: the server answers with something else than the "
        "model's outputs.",
        per_step=breaches.replies_changed,
    ),
    Rule(
        name="LatencyBound",
        effect="reason",
        limit="the scenario's percentile of the latency is within latencyBoundMicroseconds",
        source="the run's own; as in MLPerf's inference rules for server, a percentile is judged",
        remedy="Lower the rate, or give the server more.",
        per_step=breaches_of_latency.latency_bound,
    ),
    Rule(
        name="EarlyStopping",
        effect="reason",
        limit="with a bound the queries are as many as MLPerf's early stopping takes with so "
        "many beyond the bound; with rules MLPerf they are also enough for an estimate "
        "where there is no bound",
        source="MLPerf Inference: early_stopping.cc of LoadGen 6.0.17, with its confidence of 0.99 "
        "and a tolerance of 0",
        remedy="Raise validity.minQueries or validity.minDurationSeconds.",
        per_step=breaches_of_latency.early_stopping,
    ),
    Rule(
        name="BoundCannotBeMet",
        effect="reason",
        limit="in findPeak one query at a time keeps the bound, and so does some rate tried",
        source="the run's own bound; chosen: 1/200 of the closed-loop throughput as the lowest "
        "rate, where a query hardly ever finds another at the server",
        remedy="Ask for a longer latencyBoundMicroseconds, or give the server more.",
        once=breaches_of_search.bound_cannot_be_met,
    ),
    Rule(
        name="PeakNotFound",
        effect="reason",
        limit="in findPeak the peak has a bracket before validity.maxDurationSeconds",
        source="the run's own maximum duration; chosen: a bracket of 1 %, as near as AchievedRate "
        "tells a rate, and 2.5 times the closed-loop throughput, which no server keeps up for "
        "long with the same connections",
        remedy="Raise validity.maxDurationSeconds; where overshoots are too few or probes too "
        "short, raise probe.minQueries; where probes contradict one another, search where "
        "nothing else runs as well.",
        once=breaches_of_search.peak_not_found,
    ),
    Rule(
        name="AchievedRate",
        effect="reason",
        limit="at least 99 % of the scheduled rate is worked off",
        source="chosen: 1 %, by which the number of 10,000 random arrivals is off by chance alone, "
        "and three standard deviations, which are chance in 1 of 740 runs",
        remedy="Lower the rate: the server does not keep up with it.",
        per_step=breaches.achieved_rate,
    ),
    Rule(
        name="Unsteady",
        effect="reason",
        limit="the figures neither rise nor fall over the window by more than 10 %, and a "
        "warm-up until steady becomes so",
        source="Kendall's test (Mann, Econometrica 13, 1945) and Sen's slope (J. Am. Stat. Assoc. "
        "63, 1968); 10 %, of a warm-up over three seconds: as by default Triton's perf_analyzer "
        "over three measurements (--stability-percentage)",
        remedy="Warm up longer, lower the rate, or look for what changes: clocks, memory, "
        "other load.",
        per_step=breaches_of_latency.unsteady,
    ),
    Rule(
        name="ServerStall",
        effect="reason",
        limit="in a closed loop no time without an answer is 1 s longer than the P99 and as much "
        "more than it as exponential latencies are by chance in 1 of 1,000 runs, and no query "
        "times out, unless it was the load generator that stood still (ClientStall)",
        source="the run's own timeout; chosen: 1 s, the length of the windows in the report, and 1 "
        "of 1,000 runs, so that chance alone hardly ever makes a run INVALID",
        remedy="Look for what stops the server; the scenario server counts every query that is"
        " due meanwhile.",
        per_step=breaches_of_silence.server_stall,
    ),
    Rule(
        name="ClientStall",
        effect="reason",
        limit="in a closed loop the load generator itself stands still for no such time: for less "
        "than half of it",
        source="the length as ServerStall; chosen: half, by which it is told who stood still",
        remedy="Give the load generator a core of its own, and look for what stops it or its "
        "machine.",
        per_step=breaches_of_silence.client_stall,
    ),
    Rule(
        name="DispatchLag",
        effect="reason",
        limit="at the percentile that is asked (P99 where none is) the dispatch lag is within 5 % "
        "of the latency, or 1 ms where that is more",
        source="chosen: 5 %, about the scatter of one run and the next, and 1 ms, for which a "
        "general-purpose kernel may let a process wait for its core",
        remedy="Give the load generator a core of its own, and keep a virtual machine's cores from "
        "sleeping (idle=poll) where its host gives them to others meanwhile.",
        per_step=breaches_of_client.dispatch_lag,
    ),
    Rule(
        name="ClientThrottled",
        effect="reason",
        limit="a CPU limit lets the load generator stand still for at most 0.1 % of the "
        "measurement",
        source="chosen: a tenth of what lies beyond the P99, which so short a standstill cannot "
        "make; the figure is the kernel's (cpu.stat)",
        remedy="Run it without a CPU limit: a LimitRange may have set one.",
        per_step=breaches_of_client.client_throttled,
    ),
    Rule(
        name="ClientStarved",
        effect="reason",
        limit="the load generator waits for a CPU for at most 10 % of the time in which queries "
        "are under way, or for less than both 1 % of the measurement and 1 ms a query, and in "
        "closed loops such waiting makes the P99 of its timer's lag no more than 5 % of the P99 "
        "latency, or 1 ms where that is more",
        source="chosen: 10 %, by which waiting moves a throughput no more than Unsteady lets it "
        "move, 1 % of the measurement as ClientSteal, 5 % and 1 ms as DispatchLag",
        remedy="Give the load generator a core of its own.",
        per_step=breaches_of_client.client_starved,
    ),
    Rule(
        name="ServerRestarted",
        effect="reason",
        limit="one server process answers from the first query to the last",
        source="by definition: two processes are two servers",
        remedy="Look for the cause in the server's log.",
        once=breaches.restarted,
    ),
    Rule(
        name="GrowingBacklog",
        effect="caution",
        limit="the unanswered queries do not grow by more than 1 % of the schedule",
        source="chosen: 1 % as in AchievedRate, and one and a half standard deviations, which are "
        "chance in 1 of 15 runs",
        remedy="Measure longer, or lower the rate.",
        per_step=breaches.growing_backlog,
    ),
    Rule(
        name="SmallSample",
        effect="caution",
        limit="the percentile (P99 where none is asked) has 95 % confidence bounds on both sides, "
        "and where no bound is asked early stopping has an estimate",
        source="order statistics (David and Nagaraja, Order Statistics, 7.1) and early_stopping.cc "
        "of MLPerf LoadGen 6.0.17; chosen: 95 %, as is usual for confidence bounds",
        remedy="Raise validity.minQueries.",
        per_step=breaches_of_latency.small_sample,
    ),
    Rule(
        name="LagElsewhere",
        effect="caution",
        limit="DispatchLag's at every other percentile that has 95 % confidence bounds on both "
        "sides",
        source="as DispatchLag; chosen: only percentiles with bounds, since a single run does not "
        "know the others anyway",
        remedy="Do not read these percentiles, or do as for DispatchLag and measure again.",
        per_step=breaches_of_client.lag_elsewhere,
    ),
    Rule(
        name="ConnectionWait",
        effect="caution",
        limit="at most 1 % of the queries wait for a connection with room",
        source="chosen: 1 % of the queries, just those beyond the P99: with no more the P99 need "
        "not be such a wait",
        remedy="Raise load.connections, unless so many are what you mean to measure.",
        per_step=breaches.connection_wait,
    ),
    Rule(
        name="ClientCpu",
        effect="caution",
        limit="the load generator, or each worker of a fleet, uses at most 0.9 of a core (with "
        "load.pacing Spin there is no such limit), and in closed loops its own work, or who stops "
        "it, makes the P99 of its timer's lag no more than 5 % of the P99 latency, or 1 ms where "
        "that is more",
        source="chosen: 0.9 of a core, where by queueing theory (M/M/1) nine pieces of work are in "
        "hand or wait on the average, 5 % and 1 ms as DispatchLag",
        remedy="Lower the rate, use larger requests, raise load.workers, or look for what stops "
        "it.",
        per_step=breaches_of_client.client_cpu,
    ),
    Rule(
        name="ClientSteal",
        effect="caution",
        limit="the hypervisor gives at most 1 % of the CPU time of the load generator's "
        "machine to others",
        source="chosen: 1 %, as much as lies beyond the P99, so that less need not show in it; the "
        "figure is the kernel's (/proc/stat)",
        remedy="Run the load generator on a machine, or a virtual one, whose CPUs are its own.",
        per_step=breaches_of_client.client_steal,
    ),
    Rule(
        name="ClockJump",
        effect="caution",
        limit="the wall clock moves against the monotonic clock by at most 5 ms from one "
        "second to the next",
        source="chosen: 5 ms, far above what reading two clocks in turn costs, and far below the "
        "128 ms from which NTP sets a clock (RFC 5905, STEPT)",
        remedy="Let the clock be slewed, not set, while you measure; times of day in the "
        "result are off.",
        per_step=breaches_of_client.clock_jump,
    ),
    Rule(
        name="WorkerStart",
        effect="caution",
        limit="all workers of a fleet begin the schedule within 5 ms",
        source="chosen: 5 ms, which workers of one machine keep to, so that several machines may "
        "add no more",
        remedy="Look at the workers' clocks and at the network between them; fewer workers may do.",
        per_step=breaches_of_fleet.worker_start,
    ),
    Rule(
        name="BracketOpen",
        effect="caution",
        limit="in findPeak the search ends by itself, before validity.maxDurationSeconds",
        source="by definition: it ends as soon as its bracket is within 1 %, or as narrow as "
        "probes of so many queries make it",
        remedy="Raise validity.maxDurationSeconds.",
        once=breaches_of_search.bracket_open,
    ),
    Rule(
        name="ServerColocated",
        effect="caution",
        limit="server and load generator run on different machines",
        source="by definition: what is on one machine shares its CPUs, caches and memory",
        remedy="Measure in a cluster of several nodes, or leave the load generator a core of its "
        "own.",
        once=breaches.colocated,
    ),
    Rule(
        name="ServerNotGuaranteed",
        effect="caution",
        limit="every server pod is of the quality-of-service class Guaranteed",
        source="Kubernetes: Pod Quality of Service Classes, of which Guaranteed is the least "
        "likely to be evicted",
        remedy="See which admission webhook or LimitRange changes the pod's resources: requests "
        "must equal limits in every container.",
        once=breaches.not_guaranteed,
    ),
    Rule(
        name="ComputeFellBack",
        effect="caution",
        limit="with device GPU every compute node of the graph runs on the GPU",
        source="ONNX Runtime, which gives the CPU what another execution provider does not take; "
        "chosen: not one node, since each may cost two copies",
        remedy="See server.graphNodesByProvider in the result, and export the model without these "
        "operators.",
        once=breaches.fell_back,
    ),
    Rule(
        name="ServerThrottled",
        effect="caution",
        limit="the CPU limit of the servers withholds at most 1 % of the CPU time that they could "
        "have used",
        source="chosen: 1 %, as much as lies beyond the P99, so that less need not show in it; the "
        "figure is the kernel's (cpu.stat)",
        remedy="Raise server.resources.cpu, or lower server.threads.",
        per_step=breaches_of_nodes.throttled,
    ),
    Rule(
        name="CpuSteal",
        effect="caution",
        limit="the hypervisor gives at most 1 % of the CPU time of the servers' node to others",
        source="chosen: 1 %, as ClientSteal; the figure is the kernel's (/proc/stat)",
        remedy="Measure on a machine, or a virtual one, whose CPUs are its own.",
        per_step=breaches_of_nodes.steal,
    ),
    Rule(
        name="GpuThrottled",
        effect="caution",
        limit="the clock of a GPU is held down in at most 10 % of the samples",
        source="chosen: 10 % of the samples, in which even a GPU that stood still moves a "
        "throughput no more than Unsteady lets it move; the reasons are NVML's",
        remedy="Look at its power limit and its cooling; the reasons are NVML's.",
        per_step=breaches_of_nodes.gpu_throttled,
    ),
    Rule(
        name="EnergyUnavailable",
        effect="caution",
        limit="with telemetry.power: Auto the servers' nodes have agents with sources of energy",
        source="by definition: energy without a source is unknown, not zero",
        remedy="Set telemetry.power: Disabled where energy is not needed.",
        per_step=breaches_of_nodes.energy_unavailable,
    ),
    Rule(
        name="EnergyIncomplete",
        effect="caution",
        limit="the energy covers the CPUs of the servers' nodes and the GPUs that they run on, "
        "over just the window",
        source="by definition: a sum without one of its parts is another sum",
        remedy="See step.energy.notCovered in the result for what is left out.",
        per_step=breaches_of_nodes.energy_incomplete,
    ),
)
"""Every rule, in the order in which findings are told."""
