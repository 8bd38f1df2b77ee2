"""Every metric of Inferometer: name, type, help and labels.

Components build their prometheus-client families from these definitions. The reference page, the
dashboards and the rules are checked against them.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:  # the server's image has no pydantic
    from inferometer_api.spec.run import BenchmarkRun

Type = Literal["counter", "gauge", "histogram"]
Component = Literal["load generator", "server", "node agent", "operator"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One family of time series."""

    name: str
    """Name in Prometheus: with the base unit, counters end with _total."""
    type: Type
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    """Upper bounds of a histogram, without +Inf."""


def _geometric(low: float, high: float, ratio: float) -> tuple[float, ...]:
    """Return bounds from low to high, each at most `ratio` times the one before."""
    steps = math.ceil(math.log(high / low) / math.log(ratio))
    return tuple(float(f"{low * (high / low) ** (at / steps):.6g}") for at in range(steps + 1))


LATENCY_BUCKETS = _geometric(50e-6, 60.0, 1.0995)
"""From 50 us to 60 s. Bounds have six digits, so that their ratio stays below 1.1."""
_COARSE_BUCKETS = _geometric(1e-6, 60.0, 2.0)
_BATCH_BUCKETS = tuple(float(2**power) for power in range(11))
_RUN = ("run_namespace", "run")
_STEP = (*_RUN, "scenario", "step")

# -- the load generator, live -------------------------------------------------------------------

LOAD_SCHEDULED = Metric(
    "inferometer_load_scheduled_queries_total",
    "counter",
    "Queries scheduled within the window; open-loop scenarios only.",
    _STEP,
)
LOAD_QUERIES = Metric(
    "inferometer_load_queries_total",
    "counter",
    "Queries of the window that were answered or failed: result is ok or the kind of error.",
    (*_STEP, "result"),
)
LOAD_SAMPLES = Metric(
    "inferometer_load_samples_total",
    "counter",
    "Inferences in the answered queries of the window.",
    _STEP,
)
LOAD_IN_FLIGHT = Metric(
    "inferometer_load_in_flight_queries", "gauge", "Queries sent and not yet answered.", _STEP
)
LOAD_TARGET_RATE = Metric(
    "inferometer_load_target_queries_per_second",
    "gauge",
    "Target rate of the scenario, 0 once all queries are sent; open-loop scenarios only.",
    _STEP,
)
LOAD_ACHIEVED = Metric(
    "inferometer_load_achieved_queries_per_second",
    "gauge",
    "Queries answered in the last full second of the window, 0 once it is over.",
    _STEP,
)
LOAD_LATENCY = Metric(
    "inferometer_load_latency_seconds",
    "histogram",
    "Latency of the window's queries until the whole reply: from the scheduled time in open-loop "
    "scenarios, otherwise from the send.",
    _STEP,
    LATENCY_BUCKETS,
)
LOAD_MODEL_QUERIES = Metric(
    "inferometer_load_model_queries_total",
    "counter",
    "Queries of the window to each model of a mix that were answered or failed: result is ok or "
    "the kind of error; scenarios with a mix only.",
    (*_STEP, "model", "result"),
)
LOAD_MODEL_LATENCY = Metric(
    "inferometer_load_model_latency_seconds",
    "histogram",
    "Latency of the window's queries to each model of a mix; scenarios with a mix only.",
    (*_STEP, "model"),
    LATENCY_BUCKETS,
)
LOAD_LAG = Metric(
    "inferometer_load_dispatch_lag_seconds",
    "histogram",
    "Time from the scheduled time of a query until the load generator handled it; open-loop "
    "scenarios only.",
    _STEP,
    _COARSE_BUCKETS,
)
LOAD_STAGE = Metric(
    "inferometer_load_stage",
    "gauge",
    "1 for the current stage of the load generator: WaitingForWorkers, WaitingForServer, "
    "WaitingForRestart, Preparing, Idle, WarmUp, Measuring or Draining; 0 for the others.",
    (*_RUN, "scenario", "step", "stage"),
)
LOAD_SERVER_INFO = Metric(
    "inferometer_load_server_info",
    "gauge",
    "Always 1; workload is a server of the run in the metrics of node agents: a pod's UID, or "
    "process:ID.",
    (*_RUN, "node", "workload"),
)

# -- the server ---------------------------------------------------------------------------------

_SERVED = (*_RUN, "model")
SERVER_READY = Metric(
    "inferometer_server_ready",
    "gauge",
    "1 while the model is loaded and warmed up, and the server is not draining.",
    _SERVED,
)
SERVER_INFO = Metric(
    "inferometer_server_info", "gauge", "Always 1; has the version.", (*_SERVED, "version")
)
SERVER_REQUESTS = Metric(
    "inferometer_server_requests_total",
    "counter",
    "Finished requests.",
    (*_SERVED, "protocol", "endpoint", "code"),
)
SERVER_INFERENCES = Metric(
    "inferometer_server_inferences_total",
    "counter",
    "Samples that the model computed; an execution counts as 1 if the first axis of the model's "
    "inputs is fixed.",
    _SERVED,
)
SERVER_PENDING = Metric(
    "inferometer_server_pending_requests",
    "gauge",
    "Inference requests that wait for the model or are being computed.",
    _SERVED,
)
SERVER_REQUEST = Metric(
    "inferometer_server_request_duration_seconds",
    "histogram",
    "Time from the last byte of an inference request until its answer is ready to be sent.",
    (*_SERVED, "protocol"),
    _COARSE_BUCKETS,
)
SERVER_QUEUE = Metric(
    "inferometer_server_queue_duration_seconds",
    "histogram",
    "Time that an inference request waited for the model.",
    _SERVED,
    _COARSE_BUCKETS,
)
SERVER_COMPUTE = Metric(
    "inferometer_server_compute_duration_seconds",
    "histogram",
    "Time of one execution of the model.",
    _SERVED,
    _COARSE_BUCKETS,
)
SERVER_BATCH = Metric(
    "inferometer_server_batch_size",
    "histogram",
    "Samples per execution of the model; 1 if the first axis of its inputs is fixed.",
    _SERVED,
    _BATCH_BUCKETS,
)
SERVER_JOINED = Metric(
    "inferometer_server_batch_requests",
    "histogram",
    "Requests per execution of the model: more than 1 only with dynamic batching.",
    _SERVED,
    _BATCH_BUCKETS,
)

# -- the node agent -----------------------------------------------------------------------------

NODE_ENERGY = Metric(
    "inferometer_node_energy_joules_total",
    "counter",
    "Energy since the agent's start, by domain: kind is Package, Dram or Gpu; method is Counter "
    "or PowerIntegral.",
    ("node", "domain", "kind", "method"),
)
NODE_POWER = Metric(
    "inferometer_node_power_watts",
    "gauge",
    "Power by domain: the mean since the last sample, or the reading of a GPU.",
    ("node", "domain", "kind", "method"),
)
NODE_CPUS = Metric("inferometer_node_cpus", "gauge", "CPUs online.", ("node",))
NODE_CPU_BUSY = Metric(
    "inferometer_node_cpu_busy_seconds_total",
    "counter",
    "CPU time in user and kernel mode, of all CPUs, since the agent's start.",
    ("node",),
)
NODE_CPU_STEAL = Metric(
    "inferometer_node_cpu_steal_seconds_total",
    "counter",
    "CPU time that the hypervisor gave to other machines, since the agent's start.",
    ("node",),
)
NODE_FREQUENCY = Metric(
    "inferometer_node_cpu_frequency_hertz", "gauge", "Mean frequency of the CPUs.", ("node",)
)
NODE_GOVERNOR = Metric(
    "inferometer_node_cpu_governor_info",
    "gauge",
    "Always 1; has the frequency governor of CPU 0.",
    ("node", "governor"),
)
NODE_TEMPERATURE = Metric(
    "inferometer_node_cpu_temperature_celsius",
    "gauge",
    "Highest reading of the CPU's sensors.",
    ("node",),
)
NODE_MEMORY_AVAILABLE = Metric(
    "inferometer_node_memory_available_bytes",
    "gauge",
    "Memory that programs can allocate without swapping.",
    ("node",),
)
_WORKLOAD = ("node", "workload")
WORKLOAD_CPU = Metric(
    "inferometer_workload_cpu_seconds_total",
    "counter",
    "CPU time of a workload (a pod's UID, or process:ID) that was sampled in the last 5 minutes.",
    _WORKLOAD,
)
WORKLOAD_THROTTLED = Metric(
    "inferometer_workload_cpu_throttled_seconds_total",
    "counter",
    "Time that the threads of a workload were throttled at their CPU limit.",
    _WORKLOAD,
)
WORKLOAD_MEMORY = Metric(
    "inferometer_workload_memory_bytes", "gauge", "Working set of a workload.", _WORKLOAD
)
WORKLOAD_PRESSURE = Metric(
    "inferometer_workload_pressure_seconds_total",
    "counter",
    "Time that some threads of a workload waited (PSI): resource is cpu, memory or io.",
    (*_WORKLOAD, "resource"),
)
_GPU = ("node", "gpu")
GPU_INFO = Metric(
    "inferometer_gpu_info",
    "gauge",
    "Always 1; has the UUID and the name of a GPU; mig is true if it is split into instances.",
    (*_GPU, "uuid", "name", "mig"),
)
GPU_UTILIZATION = Metric(
    "inferometer_gpu_utilization_ratio",
    "gauge",
    "Share of the time in which a kernel ran, from 0 to 1.",
    _GPU,
)
GPU_MEMORY_USED = Metric(
    "inferometer_gpu_memory_used_bytes", "gauge", "Memory in use on a GPU.", _GPU
)
GPU_MEMORY_TOTAL = Metric("inferometer_gpu_memory_total_bytes", "gauge", "Memory of a GPU.", _GPU)
GPU_CLOCK = Metric(
    "inferometer_gpu_clock_hertz", "gauge", "Clock of a GPU's streaming multiprocessors.", _GPU
)
GPU_TEMPERATURE = Metric(
    "inferometer_gpu_temperature_celsius", "gauge", "Temperature of a GPU.", _GPU
)
GPU_THROTTLED = Metric(
    "inferometer_gpu_throttled",
    "gauge",
    "1 while the clock of a GPU is throttled for this reason.",
    (*_GPU, "reason"),
)
AGENT_SOURCE = Metric(
    "inferometer_agent_source_available",
    "gauge",
    "1 if a source (rapl, nvml, cgroup, node) has figures, otherwise 0.",
    ("node", "source"),
)
AGENT_SAMPLES = Metric("inferometer_agent_samples_total", "counter", "Samples.", ("node",))
AGENT_SAMPLE_SECONDS = Metric(
    "inferometer_agent_sample_seconds_total", "counter", "Time spent on samples.", ("node",)
)
_NODE = ("node",)
CACHE_HITS = Metric(
    "inferometer_model_cache_hits_total",
    "counter",
    "Mounts of models that the node's cache had at the first call; only with a model cache.",
    _NODE,
)
CACHE_MISSES = Metric(
    "inferometer_model_cache_misses_total",
    "counter",
    "Mounts of models that the node's cache downloaded first, over however many calls.",
    _NODE,
)
CACHE_FETCHED = Metric(
    "inferometer_model_cache_fetched_bytes_total",
    "counter",
    "Bytes that the model cache of the node received from stores.",
    _NODE,
)
CACHE_EVICTIONS = Metric(
    "inferometer_model_cache_evictions_total",
    "counter",
    "Models that the full cache of the node removed.",
    _NODE,
)
CACHE_USED = Metric(
    "inferometer_model_cache_used_bytes",
    "gauge",
    "Bytes of the models and downloads in the cache of the node.",
    _NODE,
)
CACHE_QUOTA = Metric(
    "inferometer_model_cache_quota_bytes",
    "gauge",
    "The most bytes that the model cache of the node takes.",
    _NODE,
)

# -- the operator -------------------------------------------------------------------------------

RUNS = Metric("inferometer_runs", "gauge", "BenchmarkRuns that exist, by their phase.", ("phase",))
SUITE_GATE = Metric(
    "inferometer_suite_gate_status",
    "gauge",
    "1 for the outcome of the gate of a suite's last execution, 0 for the others: PASS, FAIL, "
    "INCONCLUSIVE or CouldNotRun. armed is false while the outcome is advisory.",
    ("suite_namespace", "suite", "outcome", "armed"),
)
RUN_PHASE_SINCE = Metric(
    "inferometer_run_phase_since_timestamp_seconds",
    "gauge",
    "When an unfinished run entered its phase. At most 200 runs: first those that have started, "
    "and among them the longest in their phase.",
    (*_RUN, "phase"),
)
RUN_DEADLINE = Metric(
    "inferometer_run_deadline_timestamp_seconds",
    "gauge",
    "Deadline of a run that has started, by its activeDeadlineSeconds. For the same runs.",
    _RUN,
)
RECONCILE = Metric(
    "inferometer_operator_reconcile_duration_seconds",
    "histogram",
    "Time to observe a run, decide and act, once.",
    (),
    _COARSE_BUCKETS,
)
API_ERRORS = Metric(
    "inferometer_operator_api_errors_total",
    "counter",
    "Requests to the API server that failed: code is the HTTP status, or unreachable.",
    ("code",),
)
LEADER = Metric(
    "inferometer_operator_leader", "gauge", "1 while this replica is the leader, otherwise 0."
)
RUN_INFO = Metric(
    "inferometer_run_info",
    "gauge",
    "Always 1; what a finished run measured (the newest 200, until they are deleted). spec_hash is "
    "equal for runs with the same model, server, load, scenarios and validity. node is that of the "
    "first server; device is empty for an External server.",
    (
        *_RUN,
        "run_uid",
        "model",
        "runtime",
        "device",
        "protocol",
        "node",
        "outcome",
        "spec_hash",
    ),
)
RUN_FINISHED = Metric(
    "inferometer_run_finished_timestamp_seconds", "gauge", "When a finished run ended.", _RUN
)
RUN_STARTED = Metric(
    "inferometer_run_started_timestamp_seconds", "gauge", "When a finished run began.", _RUN
)
RUN_STORED = Metric(
    "inferometer_run_stored_info",
    "gauge",
    "Always 1; url is the permanent address of the result, which the results service keeps. Absent "
    "without that service. For the same runs as inferometer_run_info.",
    (*_RUN, "url"),
)
RUN_VALID = Metric(
    "inferometer_run_valid", "gauge", "1 if the verdict of a scenario is VALID, otherwise 0.", _STEP
)
RUN_QPS = Metric(
    "inferometer_run_queries_per_second",
    "gauge",
    "Queries answered per second, by the step with the most samples per second.",
    _STEP,
)
RUN_QUERIES = Metric(
    "inferometer_run_queries", "gauge", "Measured queries of a scenario, in its step.", _STEP
)
RUN_ERRORS = Metric(
    "inferometer_run_errors", "gauge", "Failed queries of a scenario, in its step.", _STEP
)
RUN_LATENCY = Metric(
    "inferometer_run_latency_seconds",
    "gauge",
    "Percentiles of the latency: percentile is 50, 90, 99 or 99.9.",
    (*_STEP, "percentile"),
)
RUN_SERVER_TIME = Metric(
    "inferometer_run_server_seconds",
    "gauge",
    "Mean time that the servers spent on a request: part is queue, compute_input, compute_infer or "
    "compute_output; absent if a server lacks the statistics extension.",
    (*_STEP, "part"),
)
RUN_STEP_SHARE = Metric(
    "inferometer_run_pipeline_step_ratio",
    "gauge",
    "Share of the mean latency that a step of the manifest took in the server, from 0 to 1, with "
    "pipeline Server; without latencies share of the mean time in the server. pipeline_step is its "
    "name, such as decode.",
    (*_STEP, "pipeline_step"),
)
RUN_COLD_START = Metric(
    "inferometer_run_cold_start_seconds",
    "gauge",
    "From the creation of the server to its first answer, in the last repeat of a coldStart.",
    _STEP,
)
RUN_JOULES = Metric(
    "inferometer_run_joules_per_inference",
    "gauge",
    "Energy per inference, including idle power; absent if unavailable.",
    (*_STEP, "attribution"),
)
RUN_NET_JOULES = Metric(
    "inferometer_run_net_joules_per_inference",
    "gauge",
    "Energy per inference without the share of the idle power; absent if unavailable.",
    (*_STEP, "attribution"),
)
_OF_NODE = "the newest that a NodeBenchmark has found and that has not expired."
NODE_BANDWIDTH = Metric(
    "inferometer_node_benchmark_memory_bytes_per_second",
    "gauge",
    f"Memory bandwidth of a node with all CPUs (STREAM's triad): {_OF_NODE}",
    _NODE,
)
NODE_LOAD_LATENCY = Metric(
    "inferometer_node_benchmark_load_latency_seconds",
    "gauge",
    f"Time of a load from memory of a node: {_OF_NODE}",
    _NODE,
)
NODE_PRODUCT_RATE = Metric(
    "inferometer_node_benchmark_fp32_operations_per_second",
    "gauge",
    f"Floating-point operations of a matrix product in FP32 on a node: {_OF_NODE}",
    _NODE,
)
NODE_DISK_RATE = Metric(
    "inferometer_node_benchmark_disk_read_bytes_per_second",
    "gauge",
    f"Rate of reading a file that is not in memory on a node: {_OF_NODE}",
    _NODE,
)
NODE_WAKE_UP_LAG = Metric(
    "inferometer_node_benchmark_wake_up_lag_seconds",
    "gauge",
    f"How late a timer is on a node, 99th percentile: {_OF_NODE}",
    _NODE,
)
NODE_MEASURED = Metric(
    "inferometer_node_benchmark_finished_timestamp_seconds",
    "gauge",
    "When a node was last measured by a NodeBenchmark that has not expired. At most 500 nodes: "
    "those measured last. For the same nodes as the other metrics of NodeBenchmarks.",
    _NODE,
)

METRICS: dict[Component, tuple[Metric, ...]] = {
    "load generator": (
        LOAD_SCHEDULED,
        LOAD_QUERIES,
        LOAD_SAMPLES,
        LOAD_IN_FLIGHT,
        LOAD_TARGET_RATE,
        LOAD_ACHIEVED,
        LOAD_LATENCY,
        LOAD_MODEL_QUERIES,
        LOAD_MODEL_LATENCY,
        LOAD_LAG,
        LOAD_STAGE,
        LOAD_SERVER_INFO,
    ),
    "server": (
        SERVER_READY,
        SERVER_INFO,
        SERVER_REQUESTS,
        SERVER_INFERENCES,
        SERVER_PENDING,
        SERVER_REQUEST,
        SERVER_QUEUE,
        SERVER_COMPUTE,
        SERVER_BATCH,
        SERVER_JOINED,
    ),
    "node agent": (
        NODE_ENERGY,
        NODE_POWER,
        NODE_CPUS,
        NODE_CPU_BUSY,
        NODE_CPU_STEAL,
        NODE_FREQUENCY,
        NODE_GOVERNOR,
        NODE_TEMPERATURE,
        NODE_MEMORY_AVAILABLE,
        WORKLOAD_CPU,
        WORKLOAD_THROTTLED,
        WORKLOAD_MEMORY,
        WORKLOAD_PRESSURE,
        GPU_INFO,
        GPU_UTILIZATION,
        GPU_MEMORY_USED,
        GPU_MEMORY_TOTAL,
        GPU_CLOCK,
        GPU_TEMPERATURE,
        GPU_THROTTLED,
        AGENT_SOURCE,
        AGENT_SAMPLES,
        AGENT_SAMPLE_SECONDS,
        CACHE_HITS,
        CACHE_MISSES,
        CACHE_FETCHED,
        CACHE_EVICTIONS,
        CACHE_USED,
        CACHE_QUOTA,
    ),
    "operator": (
        RUNS,
        SUITE_GATE,
        NODE_MEASURED,
        NODE_BANDWIDTH,
        NODE_LOAD_LATENCY,
        NODE_PRODUCT_RATE,
        NODE_DISK_RATE,
        NODE_WAKE_UP_LAG,
        RUN_PHASE_SINCE,
        RUN_DEADLINE,
        RECONCILE,
        API_ERRORS,
        LEADER,
        RUN_INFO,
        RUN_STARTED,
        RUN_FINISHED,
        RUN_STORED,
        RUN_VALID,
        RUN_QPS,
        RUN_QUERIES,
        RUN_ERRORS,
        RUN_LATENCY,
        RUN_SERVER_TIME,
        RUN_STEP_SHARE,
        RUN_COLD_START,
        RUN_JOULES,
        RUN_NET_JOULES,
    ),
}
"""Every metric by component. Each component also has the process_* of prometheus-client."""


def run_labels(run: "BenchmarkRun") -> tuple[str, str]:
    """Return the values of the labels run_namespace and run; a local run has no namespace."""
    return run.metadata.namespace or "local", run.metadata.name or "run"
