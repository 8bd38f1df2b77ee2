"""docs/reference/metrics.md: every metric, with its labels, and how to scrape them."""

from itertools import pairwise
from math import prod
from typing import get_args

from docgen.field_tables import HEADER
from inferometer_api.metrics import definitions as metrics
from inferometer_api.metrics.definitions import METRICS, Component, Metric
from inferometer_api.nodes.benchmark import MOST_NODES
from inferometer_api.plan.cluster_objects import LOADGEN_PORT
from inferometer_api.plan.reports import ProgressReport
from inferometer_api.results.agent_sample import AGENT_PORT

_INTRODUCTION = """\
For everyone who builds dashboards or alerts. Every component serves its metrics in Prometheus's
text format at `GET /metrics`. Latency of a run while it is measured:

```
histogram_quantile(0.99, sum by (le, run_namespace, run, scenario, step)
  (rate(inferometer_load_latency_seconds_bucket[30s])))
```

Each component also has the `process_*` metrics of prometheus-client. Names follow Prometheus's
conventions: base units, `_total` for counters, `_info` for metrics whose value is always 1."""
_BY_POD_MONITOR = (
    "a PodMonitor of the chart, else the pod's annotations `prometheus.io/scrape`, `port`, `path`"
)
_PLACES = (
    ("load generator", f"port `http` ({LOADGEN_PORT}) of the load pod", _BY_POD_MONITOR),
    ("server", "port `http` of the server pod", _BY_POD_MONITOR),
    (
        "node agent",
        f"port {AGENT_PORT} of each node's agent",
        "a PodMonitor of the chart `inferometer-agent`, else the pod's annotations",
    ),
    (
        "operator",
        "port 8080 of the operator",
        "a ServiceMonitor of the chart, else the pod's annotations",
    ),
    (
        "a local run",
        "ports of 127.0.0.1, others each time",
        "`inferometer run --prometheus-targets FILE.json` keeps a file for `file_sd_configs`",
    ),
)
_SCRAPING = """\
* Scrape load generators and servers every 5 s: they exist only as long as their run.
* A scrape shares the event loop that measures, so it is kept short: only the current step is
  rendered anew. The newest 16 finished steps stay visible until the load generator ends, which
  does not wait for a last scrape.
* The operator serves the figures of a finished run until the run is deleted, so that a run shorter
  than the scrape interval is not lost. It serves the newest 200 finished runs."""
_LABELS = {
    "run_namespace, run": "Namespace and name of the BenchmarkRun. The namespace of a local run is "
    "`local`. Empty for a server that belongs to no run. They are not called `namespace` and "
    "`pod`, because Prometheus sets these itself.",
    "scenario, step": "Name of the scenario, and its step: `batch 8`. The step is empty if the "
    "scenario has one step only. Both are empty until the server is ready.",
    "result": "`ok`, or why a query failed: `timeout`, `connection`, `status`, `protocol` or "
    "`content`.",
    "stage": "Stage of the load generator.",
    "model": "Name of the model in the server: the end of its address without `.onnx`.",
    "protocol, endpoint, code": "`http` or `grpc`; the requested endpoint; the HTTP or gRPC "
    "status. Code 499 counts requests whose client disconnected before they were computed.",
    "node": "Name of the Kubernetes node.",
    "workload": "A pod's UID, or `process:` and a process ID. `inferometer_load_server_info` "
    "joins it to its run.",
    "domain, kind, method": "What consumes energy: a CPU package, its memory, a GPU. The method is "
    "a counter, or sampled power summed up.",
    "gpu": "Index of the GPU on its node.",
    "percentile": "`50`, `90`, `99` or `99.9`.",
    "part": "Part of the time that a server spends on a request: `queue`, `compute_input`, "
    "`compute_infer` or `compute_output`.",
    "attribution": "What an energy figure covers: `dedicated`, `shared`, `node` or `estimated`.",
    "spec_hash": "Equal for runs with the same model, server, load, scenarios and validity, whose "
    "figures can be compared.",
    "phase, outcome": "The phase in `status.phase`; how a run ended.",
}
_QUANTILES = """\
Latencies are classic histograms. Each bucket bound is at most 1.1 times the one before, so
`histogram_quantile` is within one bucket of the result document for 1,000 queries or more. The
percentiles of the result document and of `inferometer_run_latency_seconds` are exact to 3
digits."""
_HEADINGS: dict[Component, str] = {
    "load generator": "The load generator: a run while it is measured",
    "server": "The server",
    "node agent": "The node agent",
    "operator": "The operator",
}
_RESULTS = 6
"""Values of the label result."""
_PROTOCOLS = 2
_VALUES = {"percentile": 4, "part": 4}
"""How many values a label of a scenario's figures has, if it has several."""
_FINISHED_RUNS = 200
"""Finished runs that the operator serves, and as many unfinished ones."""
_MOST_SCENARIOS = 32
"""Maximum number of scenarios of a run."""


def metrics_page() -> str:
    """Return the page, made from the definitions of the metrics."""
    lines = [
        f"<!-- {HEADER} -->",
        "# Metrics",
        "",
        _INTRODUCTION,
    ]
    for component, heading in _HEADINGS.items():
        lines += ["", f"## {heading}", "", *_table(METRICS[component])]
    lines += [
        "",
        "## Scraping",
        "",
        "| component | where | how Prometheus finds it |",
        "|---|---|---|",
        *(f"| {' | '.join(place)} |" for place in _PLACES),
        "",
        _SCRAPING,
        "",
        "## Labels",
        "",
        "| label | meaning |",
        "|---|---|",
        *(f"| {_names(names)} | {_cell(text)} |" for names, text in _LABELS.items()),
        "",
        "## Quantiles",
        "",
        _QUANTILES,
        "",
        "## Number of time series",
        "",
        *_cardinality(),
    ]
    return "\n".join(lines) + "\n"


def _names(names: str) -> str:
    return ", ".join(f"`{name}`" for name in names.split(", "))


def _table(rows: tuple[Metric, ...]) -> list[str]:
    head = ["| metric | type | labels | meaning |", "|---|---|---|---|"]
    return [*head, *(_row(metric) for metric in rows)]


def _row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    text = f"{metric.help} {_buckets(metric)}".strip()
    return f"| `{metric.name}` | {metric.type} | {labels} | {_cell(text)} |"


def _buckets(metric: Metric) -> str:
    bounds = metric.buckets
    if not bounds:
        return ""
    ratio = max(after / before for before, after in pairwise(bounds))
    show = _time if metric.name.endswith("_seconds") else str
    return (
        f"{len(bounds)} bounds from {show(bounds[0])} to {show(bounds[-1])}, each at most "
        f"{ratio:.3g} times the one before."
    )


def _time(seconds: float) -> str:
    return f"{seconds:g} s" if seconds >= 1 else f"{seconds * 1e6:g} µs"


def series_of(metric: Metric) -> int:
    """Return how many time series one set of a metric's labels has."""
    # Three more per histogram: the bucket +Inf, the count and the sum.
    return len(metric.buckets) + 3 if metric.type == "histogram" else 1


def step_series() -> int:
    """Return how many time series a step of an open-loop scenario has."""
    times = {
        "stage": len(get_args(ProgressReport.model_fields["stage"].annotation)),
        "result": _RESULTS,
    }
    return sum(
        series_of(metric) * prod(times.get(label, 1) for label in metric.labels)
        for metric in METRICS["load generator"]
        if "step" in metric.labels and "model" not in metric.labels
    )


def model_series() -> int:
    """Return how many time series a step has for each model of a mix."""
    return series_of(metrics.LOAD_MODEL_LATENCY) + _RESULTS


def _cardinality() -> list[str]:
    server = sum(
        series_of(metric) * (_PROTOCOLS if "protocol" in metric.labels else 1)
        for metric in METRICS["server"]
        if metric != metrics.SERVER_REQUESTS
    )
    run = len((metrics.RUN_INFO, metrics.RUN_STARTED, metrics.RUN_FINISHED))
    scenario = sum(
        prod(_VALUES.get(label, 1) for label in metric.labels)
        for metric in METRICS["operator"]
        if "scenario" in metric.labels
        and metric not in {metrics.RUN_COLD_START, metrics.RUN_STEP_SHARE}
    )
    one, three, most = (
        _FINISHED_RUNS * (run + count * scenario) for count in (1, 3, _MOST_SCENARIOS)
    )
    node = sum(metric.labels == ("node",) for metric in METRICS["operator"])
    going = len((metrics.RUN_PHASE_SINCE, metrics.RUN_DEADLINE))
    load = (
        f"A load generator has {step_series()} series per step of an open-loop scenario, "
        f"{series_of(metrics.LOAD_LATENCY)} of them for the latency. A mix adds "
        f"{model_series()} per model. They end with its pod."
    )
    serving = (
        f"A server has {server}, and one for each combination of protocol, endpoint and code that "
        "occurs."
    )
    operating = (
        f"The operator has {run} series per finished run and {scenario} per scenario, for the "
        f"newest {_FINISHED_RUNS} finished runs: {one:,} if each has one scenario, {three:,} if "
        f"each has three, {most:,} at most, with {_MOST_SCENARIOS} each; a run with a cold start "
        "has one more, with pipeline Server each scenario one more per step. Each of up to "
        f"{_FINISHED_RUNS} unfinished runs has {going}. If there are more, runs that have started "
        "come first, and among them the longest in their phase. Each of up to "
        f"{MOST_NODES} nodes that a NodeBenchmark has measured has {node}."
    )
    return [
        "Every label has few values: no value comes from a client's request.",
        "",
        *(f"* {line}" for line in (load, serving, operating)),
    ]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
