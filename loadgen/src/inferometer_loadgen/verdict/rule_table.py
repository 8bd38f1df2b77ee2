"""Table of the verdict's rules: limit, source, reason and remedy of each.

`docs/reference/verdict.md` documents the same table; a test compares the two.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from inferometer_loadgen.verdict.measurement import Measurement, ScenarioConditions, Violations
from inferometer_loadgen.verdict.rules import (
    busy,
    client,
    cold_start,
    counts,
    environment,
    fleet,
    latency,
    nodes,
    rate,
    search,
    silence,
)


@dataclass(frozen=True, slots=True)
class VerdictRule:
    """A named rule; a violation makes the scenario INVALID (`reason`) or adds a `caution`."""

    name: str
    effect: Literal["reason", "caution"]
    limit: str
    """The limit in words, for the documentation."""
    source: str
    """Origin of the limit; for a limit of our own, `chosen:` and the reason for its value."""
    why: str
    """One sentence: why a violation matters."""
    remedy: str
    per_step: Callable[[Measurement, ScenarioConditions], Violations] | None = None
    """Check of one step. BusyMachine has no check of its own: it explains other reasons."""
    once: Callable[[ScenarioConditions], Violations] | None = None
    """Check of the whole scenario."""


RULES: tuple[VerdictRule, ...] = (
    VerdictRule(
        name="BusyMachine",
        effect="reason",
        limit="if the load generator is late or the server slow, other processes use at most 10 % "
        "of the machine's CPUs",
        source="chosen: 10 %, more than an idle system uses, half of the CPUs in use by all, below "
        "which a free one is at hand, and 90 % for a slow server, which has other causes too; the "
        "kernel reports the figures (/proc/stat)",
        why="Server and load generator wait while others run, and that is in the latency.",
        remedy="Stop the other processes, or measure on an idle machine.",
    ),
    VerdictRule(
        name="EndedEarly",
        effect="reason",
        limit="only the run's own limits end a measurement",
        source="by definition: a measurement that something else ended is not the requested one",
        why="The queries that were still outstanding are missing, and those are the slowest.",
        remedy="Run it again to its end.",
        once=environment.ended_early,
    ),
    VerdictRule(
        name="WorkerLost",
        effect="reason",
        limit="every worker of a fleet runs to the end",
        source="by definition: the requested load is that of all workers",
        why="From then on the load was smaller than requested, and the schedule had gaps.",
        remedy="Look for the cause in the worker's log, and run it again.",
        per_step=fleet.worker_lost,
    ),
    VerdictRule(
        name="NoReply",
        effect="reason",
        limit="at least one query is answered",
        source="by definition: without an answer there is no latency",
        why="There is no latency to report.",
        remedy="Look at the errors by kind and at the server's log.",
        per_step=counts.no_reply,
    ),
    VerdictRule(
        name="MinDuration",
        effect="reason",
        limit="at least validity.minDurationSeconds (each step of batch and concurrency: an equal "
        "share; rules MLPerf: at least MLPerf's minimum; probes of findPeak: no minimum)",
        source="60 s by default: MLPerf Inference v0.5 (mlperf.conf); rules MLPerf: its inference "
        "rules and mlperf.conf of LoadGen 6.0.17; chosen: equal shares, so that a sweep takes no "
        "longer than one step",
        why="Short windows miss rare events such as garbage collection, throttling and clock "
        "changes.",
        remedy="Measure longer; in offline, request more samples.",
        per_step=counts.min_duration,
    ),
    VerdictRule(
        name="MinQueries",
        effect="reason",
        limit="at least validity.minQueries (each step of batch, in samples, and of concurrency: "
        "an equal share, at least 10 queries; rules MLPerf: at least MLPerf's minimum; trace: all "
        "queries of the trace)",
        source="1,024 by default: singleStream of MLPerf Inference v0.5 (mlperf.conf); rules "
        "MLPerf: mlperf.conf and test_settings.h of LoadGen 6.0.17; chosen: 10 in a step, since "
        "the median of fewer is chance",
        why="A percentile of few queries is chance, and a part of a trace is another load.",
        remedy="Raise validity.maxDurationSeconds, or request fewer queries.",
        per_step=counts.min_queries,
    ),
    VerdictRule(
        name="ErrorRate",
        effect="reason",
        limit="at most 0.1 % of the queries fail",
        source="chosen: a tenth of the 1 % beyond the P99, since failed queries have no latency "
        "and hide at most that part of it",
        why="Failed queries have no latency, and a server that rejects load looks fast.",
        remedy="Look at the errors by kind and at the server's log.",
        per_step=counts.error_rate,
    ),
    VerdictRule(
        name="SamplesFailed",
        effect="reason",
        limit="with sampledAccuracy, at most 0.1 % of the samples cannot be evaluated, and at "
        "least one is",
        source="chosen: the limit of ErrorRate, by which a scenario of kind accuracy is judged",
        why="Failed samples count in no measure, and may be the harder ones.",
        remedy="The failures are listed with their stage: mend the data set or the manifest's "
        "steps. If none failed, keep more replies: lower sampleEvery, or measure longer.",
        once=counts.samples_failed,
    ),
    VerdictRule(
        name="TooManyResent",
        effect="reason",
        limit="at most 0.1 % of the queries are sent a second time",
        source="chosen: the limit of ErrorRate, since the first try of each failed",
        why="A server that keeps closing connections serves another load than the requested one.",
        remedy="Look at the errors by kind and at the server's log: it closes connections after "
        "errors.",
        per_step=counts.too_many_resent,
    ),
    VerdictRule(
        name="RepliesChanged",
        effect="reason",
        limit="every checked reply has the names, types and shapes of the model's outputs",
        source="the Open Inference Protocol (V2): a reply has the outputs in the model's metadata; "
        "chosen: no exception, since few replies are checked",
        why="Only some replies are checked, so each wrong one stands for many.",
        remedy="Look at the error example: the server returns something other than the model's "
        "outputs.",
        per_step=counts.replies_changed,
    ),
    VerdictRule(
        name="LatencyBound",
        effect="reason",
        limit="the scenario's percentile of the latency is at most latencyBoundMicroseconds",
        source="the run's own bound; MLPerf's inference rules judge server by a percentile as well",
        why="The server does not meet the requested bound.",
        remedy="Lower the rate, or give the server more resources.",
        per_step=latency.latency_bound,
    ),
    VerdictRule(
        name="EarlyStopping",
        effect="reason",
        limit="with a bound, as many queries as MLPerf's early stopping requires for the number "
        "beyond it; with rules MLPerf and no bound, enough queries for an estimate",
        source="MLPerf Inference: early_stopping.cc of LoadGen 6.0.17, with its confidence of 0.99 "
        "and a tolerance of 0",
        why="With fewer queries the result may be chance.",
        remedy="Raise validity.minQueries or validity.minDurationSeconds.",
        per_step=latency.early_stopping,
    ),
    VerdictRule(
        name="BoundCannotBeMet",
        effect="reason",
        limit="in findPeak, one query at a time meets the bound, and so does at least one rate",
        source="the run's own bound; chosen: 1/200 of the closed-loop throughput as the lowest "
        "rate, where queries hardly ever overlap",
        why="More load never makes a query faster.",
        remedy="Raise latencyBoundMicroseconds, or give the server more resources.",
        once=search.bound_cannot_be_met,
    ),
    VerdictRule(
        name="PeakNotFound",
        effect="reason",
        limit="in findPeak, the search brackets the peak within validity.maxDurationSeconds, and "
        "its probes finish within probe.maxSeconds",
        source="the run's own limits; chosen: a bracket of 1 %, the tolerance of "
        "AchievedRate, and at most 2.5 times the closed-loop throughput, which no "
        "server sustains with the same connections",
        why="Without a bracket, the peak is a guess.",
        remedy="Do what the message says: raise the limit that ended the search, raise "
        "probe.minQueries, or search on an idle machine.",
        once=search.peak_not_found,
    ),
    VerdictRule(
        name="AchievedRate",
        effect="reason",
        limit="the server completes at least 99 % of the scheduled rate",
        source="chosen: 1 %, the standard deviation of 10,000 random arrivals, and three standard "
        "deviations, which chance exceeds in 1 of 740 runs",
        why="If a server does not keep up, its queue and its latencies grow for as long as you "
        "measure.",
        remedy="Lower the rate.",
        per_step=rate.achieved_rate,
    ),
    VerdictRule(
        name="Unsteady",
        effect="reason",
        limit="the figures rise or fall by at most 10 % over the window, and a warm-up until "
        "steady becomes steady",
        source="Kendall's test (Mann, Econometrica 13, 1945) and Sen's slope (J. Am. Stat. Assoc. "
        "63, 1968); 10 %, for a warm-up over three seconds: the default of Triton's perf_analyzer "
        "over three measurements (--stability-percentage)",
        why="A figure over a server whose speed changes describes none of its states.",
        remedy="Warm up longer, lower the rate, or look for what changes: clock speeds, memory, "
        "other load.",
        per_step=latency.unsteady,
    ),
    VerdictRule(
        name="ServerStall",
        effect="reason",
        limit="in a closed loop, no query times out, and no silence of the server exceeds the P99 "
        "by 1 s and more than by chance",
        source="the run's own timeout; chosen: 1 s, the length of the report's windows, and 1 of "
        "1,000 runs, so that chance alone hardly ever makes a run INVALID",
        why="A closed loop sends nothing while it waits, so the affected queries are in no "
        "percentile.",
        remedy="Look for what stops the server; the scenario server counts every query that is due "
        "during a stall.",
        per_step=silence.server_stall,
    ),
    VerdictRule(
        name="ClientStall",
        effect="reason",
        limit="in a closed loop, the load generator itself stands still for less than half of such "
        "a time",
        source="the length as in ServerStall; chosen: half, which decides which side stood still",
        why="Answers lay unread and no query was sent, so the affected queries are in no "
        "percentile.",
        remedy="Give the load generator a core of its own, and look for what stops it or its "
        "machine.",
        per_step=silence.client_stall,
    ),
    VerdictRule(
        name="DispatchLag",
        effect="reason",
        limit="the dispatch lag at the judged percentile (P99 by default) is at most 5 % of the "
        "latency, or 1 ms if that is more",
        source="chosen: 5 %, about the difference between two runs, and 1 ms, which a "
        "general-purpose kernel may let a process wait for its core",
        why="The lag is part of the reported latency, and it is the load generator's, not the "
        "server's.",
        remedy="Give the load generator a core of its own, and keep a virtual machine's cores from "
        "sleeping (idle=poll) if its host gives them to others meanwhile.",
        per_step=client.dispatch_lag,
    ),
    VerdictRule(
        name="ClientThrottled",
        effect="reason",
        limit="a CPU limit stops the load generator for at most 0.1 % of the measurement",
        source="chosen: a tenth of the 1 % beyond the P99, which so short a stop cannot determine; "
        "the kernel reports the figure (cpu.stat)",
        why="While it is stopped, replies lie unread and count as slow.",
        remedy="Run it without a CPU limit; a LimitRange may have set one.",
        per_step=client.client_throttled,
    ),
    VerdictRule(
        name="ClientStarved",
        effect="reason",
        limit="the load generator waits for a CPU for at most 10 % of the time with queries under "
        "way; in closed loops, its timer's lag is small",
        source="chosen: 10 %, by which waiting changes a throughput no more than Unsteady allows, "
        "1 % of the measurement as in ClientSteal, 5 % and 1 ms as in DispatchLag",
        why="A reply that waits for the load generator counts as slow.",
        remedy="Give the load generator a core of its own.",
        per_step=client.client_starved,
    ),
    VerdictRule(
        name="ServerRestarted",
        effect="reason",
        limit="one server process answers from the first query to the last",
        source="by definition: two processes are two servers",
        why="A new process is cold, and the figures mix two servers.",
        remedy="Look for the cause in the server's log.",
        once=environment.server_restarted,
    ),
    VerdictRule(
        name="EngineSetting",
        effect="reason",
        limit="every layer that multiplies matrices computes in server.precision, and the engine "
        "has server.threads threads",
        source="by definition: otherwise the figures are those of other settings; the engine "
        "reports what it uses",
        why="The figures are not those of the requested precision or number of threads.",
        remedy="Set server.precision to Default, or another runtime; a model that is to compute "
        "in INT8 must be quantised. Set server.threads to at most the CPUs of the server.",
        once=environment.engine_setting,
    ),
    VerdictRule(
        name="ColdStartState",
        effect="reason",
        limit="in coldStart, at most 1 % of the model's files are in memory before the start; in "
        "the state ModelInMemory at least 99 %; the node pulls the image in the state Nothing, and "
        "in no other",
        source="by definition: the state; chosen: 1 %, room for pages that the kernel reads "
        "ahead; the kernel reports the figure (mincore)",
        why="A start from memory is not a start from disk.",
        remedy="Take the state that holds, or keep the model on a disk file system whose pages "
        "can be evicted: not on tmpfs, and not mapped by another process. If the image was pulled, "
        "run again: the node now has it.",
        once=cold_start.cold_state,
    ),
    VerdictRule(
        name="ColdStartGap",
        effect="reason",
        limit="in coldStart, the phases cover at least 95 % of the start",
        source="chosen: 5 %, so that a delay is found in the phase that it belongs to",
        why="The phases do not say where the time went.",
        remedy="Look at the phases before and after the gap, and at the server's log; on a busy "
        "machine measure again.",
        once=cold_start.unexplained_start,
    ),
    VerdictRule(
        name=busy.OTHER_PROCESSES,
        effect="caution",
        limit="other processes use at most 10 % of the machine's CPUs, or half of them are free",
        source="chosen: as in BusyMachine, 10 % and half of the CPUs in use",
        why="A server next to other work is slower, though the load generator was in time: the "
        "figures are those of a busy machine.",
        remedy="Stop the other processes, or measure on an idle machine.",
        per_step=busy.other_processes,
    ),
    VerdictRule(
        name="QueriesResent",
        effect="caution",
        limit="no query is sent a second time",
        source="RFC 9112, section 9.3.1: a client may send a request again if the server closed "
        "the connection before it read it",
        why="Their latency counts from their due time, and includes a new connection.",
        remedy="Look at the errors by kind and at the server's log: it closes connections after "
        "errors.",
        per_step=counts.queries_resent,
    ),
    VerdictRule(
        name="OutputShape",
        effect="caution",
        limit="every output has the shape that the model's metadata name",
        source="the Open Inference Protocol (V2): metadata name the shape of each output; chosen: "
        "a caution, since a deviation that all replies share is an error of the metadata",
        why="Replies are checked against the shape of the first ones instead.",
        remedy="Correct the model's metadata, or declare the outputs in model.outputs.",
        per_step=counts.output_shape,
    ),
    VerdictRule(
        name="JsonReplies",
        effect="caution",
        limit="replies carry tensors as binary data if the requests want it",
        source="the extension binary_tensor_data of the Open Inference Protocol (V2), in which a "
        "request says how outputs are returned",
        why="JSON costs both sides more CPU, and the figures include it.",
        remedy="Set load.tensors: Json to measure JSON in both directions, or enable binary "
        "outputs on the server.",
        per_step=counts.json_replies,
    ),
    VerdictRule(
        name="ServerNotReady",
        effect="caution",
        limit="the server reports that it is ready, not only its model",
        source="the Open Inference Protocol (V2): the readiness of a server covers all its models",
        why="What else the server does, such as loading another model, takes time from this one.",
        remedy="Look at the readiness of the server's other models.",
        once=environment.server_not_ready,
    ),
    VerdictRule(
        name="GrowingBacklog",
        effect="caution",
        limit="the number of unanswered queries grows by at most 1 % of the schedule",
        source="chosen: 1 % as in AchievedRate, and one and a half standard deviations, which "
        "chance exceeds in 1 of 15 runs",
        why="If the server does not keep up, the latencies depend on how long you measure.",
        remedy="Measure longer, or lower the rate.",
        per_step=rate.growing_backlog,
    ),
    VerdictRule(
        name="SmallSample",
        effect="caution",
        limit="the judged percentile (P99 by default) has 95 % confidence bounds on both sides; "
        "without a latency bound, early stopping has an estimate",
        source="order statistics (David and Nagaraja, Order Statistics, 7.1) and early_stopping.cc "
        "of MLPerf LoadGen 6.0.17; chosen: 95 %, as is usual for confidence bounds",
        why="The percentile may be chance.",
        remedy="Raise validity.minQueries.",
        per_step=latency.small_sample,
    ),
    VerdictRule(
        name="LagElsewhere",
        effect="caution",
        limit="the limit of DispatchLag, at every other percentile with 95 % confidence bounds on "
        "both sides",
        source="as DispatchLag; chosen: only percentiles with bounds, since a single run does not "
        "establish the others",
        why="The judged percentile is correct, but these are not the server's alone.",
        remedy="Ignore these percentiles, or apply the remedy of DispatchLag and measure again.",
        per_step=client.lag_elsewhere,
    ),
    VerdictRule(
        name="ConnectionWait",
        effect="caution",
        limit="at most 1 % of the queries wait for a free connection",
        source="chosen: 1 % of the queries, those beyond the P99, so that the P99 is not "
        "necessarily such a wait",
        why="The wait is part of their latency.",
        remedy="Raise load.connections, unless you want to measure exactly this number.",
        per_step=rate.connection_wait,
    ),
    VerdictRule(
        name="ClientCpu",
        effect="caution",
        limit="the load generator, or each worker of a fleet, uses at most 0.9 of a core (no limit "
        "with load.pacing Spin); in closed loops, its own work or a stop makes the P99 of its "
        "timer's lag at most 5 % of the P99 latency, or 1 ms if that is more",
        source="chosen: 0.9 of a core, at which by queueing theory (M/M/1) nine pieces of work are "
        "in progress or waiting on average, 5 % and 1 ms as in DispatchLag",
        why="Replies then wait in the load generator and count as slow.",
        remedy="Lower the rate, use larger requests, raise load.workers, or look for what stops "
        "it.",
        per_step=client.client_cpu,
    ),
    VerdictRule(
        name="ClientSteal",
        effect="caution",
        limit="the hypervisor gives at most 1 % of the CPU time of the load generator's machine to "
        "other guests",
        source="chosen: 1 %, the part beyond the P99, so less than 1 % may not be visible in "
        "the P99; the kernel reports the figure (/proc/stat)",
        why="The load generator stood still without noticing it.",
        remedy="Run the load generator on a machine with dedicated CPUs.",
        per_step=client.client_steal,
    ),
    VerdictRule(
        name="ClockJump",
        effect="caution",
        limit="the wall clock moves against the monotonic clock by at most 5 ms from one second to "
        "the next",
        source="chosen: 5 ms, far above the cost of reading two clocks, and far below the 128 ms "
        "from which NTP steps a clock (RFC 5905, STEPT)",
        why="Durations are correct, but times of day in the result are off.",
        remedy="Let the clock be slewed, not stepped, during a measurement.",
        per_step=client.clock_jump,
    ),
    VerdictRule(
        name="WorkerStart",
        effect="caution",
        limit="all workers of a fleet start the schedule within 5 ms",
        source="chosen: 5 ms, which workers on one machine achieve, so that several machines add "
        "no more",
        why="The merged schedule differs from the seed's by that much.",
        remedy="Check the workers' clocks and the network between them; fewer workers may suffice.",
        per_step=fleet.worker_start,
    ),
    VerdictRule(
        name="BracketOpen",
        effect="caution",
        limit="in findPeak, the search ends by itself, before validity.maxDurationSeconds",
        source="by definition: it ends as soon as its bracket is within 1 %, or as narrow as "
        "probes of so many queries make it",
        why="The bracket is correct, but wider than necessary.",
        remedy="Raise validity.maxDurationSeconds.",
        once=search.bracket_open,
    ),
    VerdictRule(
        name="SingleWindow",
        effect="caution",
        limit="at least 2 repeats (validity.repeats)",
        source="by definition: the spread of one figure is unknown",
        why="Its bounds hold within this window; how much the figures differ from run to run is "
        "unknown.",
        remedy="Set validity.repeats to 3 or more. inferometer noise shows how far the figures of "
        "this machine wander.",
        once=environment.single_window,
    ),
    VerdictRule(
        name="ColdStartUnproven",
        effect="caution",
        limit="in coldStart, it is known what share of the model's files was in memory before the "
        "start, and whether the node had the image",
        source="by definition: a state that is not measured is not proven",
        why="A start from memory may have been taken for a start from disk, or one with a pull of "
        "the image for one without.",
        remedy="For an unknown share in memory: own the model's files, or leave out "
        "spec.model.cache. For an unknown pull: install the chart with "
        "images.pullPolicy=IfNotPresent.",
        once=cold_start.state_not_proven,
    ),
    VerdictRule(
        name="ServerColocated",
        effect="caution",
        limit="server and load generator run on different machines",
        source="by definition: processes on one machine share its CPUs, caches and memory",
        why="They compete for CPU time, caches and memory bandwidth, without a network between "
        "them.",
        remedy="Measure in a cluster of several nodes, or leave the load generator a core of its "
        "own.",
        once=environment.server_colocated,
    ),
    VerdictRule(
        name="LoadNodeUnfit",
        effect="caution",
        limit="on the load generator's node, a NodeBenchmark of the run's namespace found "
        "standstills of at most 5 % of the time, steal of at most 1 %, and a timer of 1 ms at most "
        "1 ms late (p99)",
        source="chosen: 5 % and 1 %, by which the node's own measurement cautions; 1 ms, as in "
        "DispatchLag",
        why="Latencies that are measured from there contain that.",
        remedy="Keep other load off the node, or generate load on another one. If it has changed, "
        "measure the node again.",
        once=environment.load_node_unfit,
    ),
    VerdictRule(
        name="ServerNotGuaranteed",
        effect="caution",
        limit="every server pod has the quality-of-service class Guaranteed",
        source="Kubernetes: Pod Quality of Service Classes; Guaranteed pods are the least likely "
        "to be evicted",
        why="Other pods on its node may take CPU time from it.",
        remedy="Find the admission webhook or LimitRange that changes the pod's resources: "
        "requests must equal limits in every container.",
        once=environment.server_not_guaranteed,
    ),
    VerdictRule(
        name="ComputeFellBack",
        effect="caution",
        limit="with device GPU, every compute node of the graph runs on the GPU",
        source="ONNX Runtime, which runs on the CPU what another execution provider does not "
        "support; chosen: no exception, since each node may cost two copies",
        why="Each of them costs copies between GPU and CPU.",
        remedy="See server.nodesByProvider in the result, and export the model without these "
        "operators.",
        once=environment.compute_fell_back,
    ),
    VerdictRule(
        name="UnexpectedPrediction",
        effect="caution",
        limit="every prediction in the manifest's expectedOutputs comes true",
        source="by definition: the manifest's author obtained these predictions",
        why="Model, steps or engine may be other ones than the author's, or another precision "
        "changes answers.",
        remedy="Compare model, labels, steps and precision with the author's, or correct the IDs "
        "and predictions in expectedOutputs.",
        once=environment.unexpected_prediction,
    ),
    VerdictRule(
        name="ConstraintUnchecked",
        effect="caution",
        limit="the version of the server's engine is known and satisfies the manifest's framework",
        source="by definition: a constraint that cannot be checked may be broken",
        why="The engine may be of a version that the manifest excludes, and answer otherwise.",
        remedy="Compare the engine of the server's image with the manifest, name its versions in "
        "the chart's images.serverEngines, or choose a runtime that reports its version, such as "
        "OnnxRuntime.",
        once=environment.constraint_unchecked,
    ),
    VerdictRule(
        name="ServerThrottled",
        effect="caution",
        limit="the CPU limit of the servers withholds at most 1 % of the CPU time that they could "
        "have used",
        source="chosen: 1 %, the part beyond the P99, so less than 1 % may not be visible in "
        "the P99; the kernel reports the figure (cpu.stat)",
        why="The kernel stops a server at its limit until the next period, and that is in the "
        "latency.",
        remedy="Raise server.resources.cpu, or lower server.threads.",
        per_step=nodes.server_throttled,
    ),
    VerdictRule(
        name="CpuSteal",
        effect="caution",
        limit="the hypervisor gives at most 1 % of the CPU time of the servers' node to other "
        "guests",
        source="chosen: 1 %, as in ClientSteal; the kernel reports the figure (/proc/stat)",
        why="The latency depends on these guests.",
        remedy="Run the server on a machine with dedicated CPUs.",
        per_step=nodes.cpu_steal,
    ),
    VerdictRule(
        name="GpuThrottled",
        effect="caution",
        limit="the clock of a GPU is throttled in at most 10 % of the samples",
        source="chosen: 10 % of the samples, in which even a stopped GPU changes a throughput no "
        "more than Unsteady allows; NVML reports the reasons",
        why="The figure holds for this power limit and this cooling.",
        remedy="Check the GPU's power limit and its cooling.",
        per_step=nodes.gpu_throttled,
    ),
    VerdictRule(
        name="EnergyUnavailable",
        effect="caution",
        limit="with telemetry.power Auto, the servers' nodes have agents with sources of energy",
        source="by definition: energy without a source is unknown, not zero",
        why="The result has no energy figures.",
        remedy="Install the node agent, or set telemetry.power to Disabled.",
        per_step=nodes.energy_unavailable,
    ),
    VerdictRule(
        name="EnergyIncomplete",
        effect="caution",
        limit="the energy covers the CPUs of the servers' nodes and their GPUs, over exactly the "
        "window",
        source="by definition: a sum without one of its parts is another sum",
        why="Do not compare it with complete figures.",
        remedy="See step.energy.notCovered in the result.",
        per_step=nodes.energy_incomplete,
    ),
)
"""All rules, in the order in which findings are reported."""

_NAMES_OF_ACCURACY = {
    "EndedEarly",
    "NoReply",
    "ErrorRate",
    "ServerRestarted",
    "EngineSetting",
    "ServerNotReady",
    "ComputeFellBack",
    "UnexpectedPrediction",
    "ConstraintUnchecked",
}
_WORDS_OF_ACCURACY: Mapping[str, Mapping[str, Any]] = {
    "ErrorRate": {
        "why": "Failed samples count in no measure, and may be the harder ones.",
        "remedy": "The failures are listed with their stage: mend the data set or the manifest's "
        "steps if it is Input or Output, and look at the server's log if it is Request.",
    },
    "EndedEarly": {"why": "The samples that were not sent are missing in every measure."},
}
OF_ACCURACY = tuple(
    replace(rule, **_WORDS_OF_ACCURACY.get(rule.name, {}))
    for rule in RULES
    if rule.name in _NAMES_OF_ACCURACY
)
"""The rules of scenarios of kind accuracy, which have no latency."""
