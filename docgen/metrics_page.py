"""How do the metrics read as a reference page?"""

from itertools import pairwise
from math import prod
from typing import get_args

from docgen.reference_pages import HEADER
from inferometer_api.metrics import definitions as metrics
from inferometer_api.metrics.definitions import METRICS, Component, Metric
from inferometer_api.plan.cluster_objects import LOADGEN_PORT
from inferometer_api.plan.reports import ProgressReport
from inferometer_api.results.agent_sample import AGENT_PORT

_INTRODUCTION = """\
Every component tells of itself in Prometheus's text format at `GET /metrics`. This page has every
metric there is; beside them each component has `process_*` (CPU, memory, open files), as
prometheus-client writes them. Names, units and types follow Prometheus's conventions: base units
(seconds, bytes, joules, watts), `_total` for what only rises, `_info` for what is always 1 and
tells something in its labels."""
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
Load generators and servers live as long as their run, so scrape them often: every 5 s. A scrape
shares the loop that measures, so it is kept short: only what the step under way changes is written
anew, and the newest 16 steps that have ended stay visible, until their load generator ends, which
does not wait for a last scrape. What a run has found is told by the operator until the run is
deleted, so that a run shorter than the scrape interval is not lost; of the newest 200 finished runs
only, since a scrape holds up the operator's loop too."""
_LABELS = {
    "run_namespace, run": "The BenchmarkRun, by `metadata`; `local` is the namespace of a run "
    "without a cluster. Empty at a server that no run has started. Not called `namespace` and "
    "`pod`, since Prometheus gives these to whatever it scrapes.",
    "scenario, step": "A scenario of the run by its name, and its step: `batch 8`. A scenario that "
    "has one step only has an empty one. Both are empty while the server is waited for.",
    "result": "`ok`, or why a query failed: `timeout`, `connection`, `status`, `protocol` or "
    "`content`.",
    "stage": "What a load generator does, as in `status.progress`.",
    "model": "What the server calls it: the end of its address without `.onnx`.",
    "protocol, endpoint, code": "`http` or `grpc`; what was asked for; the HTTP or gRPC status. "
    "Code 499 counts requests whose client was gone before they were computed.",
    "node": "The node's name, as Kubernetes has it.",
    "workload": "A pod's UID, or `process:` and the ID of a process. `inferometer_load_server_info` "
    "joins it to its run.",
    "domain, kind, method": "What takes energy: a CPU package, its memory, a GPU; and how the "
    "energy is known: by a counter, or by power sampled and summed up.",
    "gpu": "A GPU's index on its node.",
    "percentile": "`50`, `90`, `99` or `99.9`.",
    "attribution": "What an energy figure covers: `dedicated`, `shared`, `node` or `estimated`.",
    "spec_hash": "The same for runs of the same model, server, load, scenarios and validity: their "
    "figures may be compared.",
    "phase, outcome": "As in `status.phase`; how a run ended.",
}
_QUANTILES = """\
Latencies come as a classic histogram whose buckets are so narrow (each bound is at most 1.1 times
the one before) that `histogram_quantile` is within one bucket of what the result document says,
from 1,000 queries on. The result document's own percentiles are exact to 3 digits, and so are those
of `inferometer_run_latency_seconds`.

```
histogram_quantile(0.99, sum by (le, run_namespace, run, scenario, step)
  (rate(inferometer_load_latency_seconds_bucket[30s])))
```"""
_HEADINGS: dict[Component, str] = {
    "load generator": "The load generator: a run while it is measured",
    "server": "The server",
    "node agent": "The node agent",
    "operator": "The operator",
}
_RESULTS = 6
"""Values of the label result."""
_PROTOCOLS = 2
_PERCENTILES_TOLD = 4
_FINISHED_RUNS = 200
"""How many the operator tells of, and of as many that are not finished."""
_MOST_SCENARIOS = 32
"""Of a run."""


def metrics_page() -> str:
    """Return docs/reference/metrics.md, made from the metrics' own data."""
    lines = [
        f"<!-- {HEADER} -->",
        "# Metrics",
        "",
        _INTRODUCTION,
        "",
        "## How to scrape them",
        "",
        "| component | where | how Prometheus finds it |",
        "|---|---|---|",
        *(f"| {' | '.join(place)} |" for place in _PLACES),
        "",
        _SCRAPING,
        "",
        "## What the labels mean",
        "",
        "| label | meaning |",
        "|---|---|",
        *(f"| {_names(names)} | {_cell(text)} |" for names, text in _LABELS.items()),
        "",
        "## Quantiles",
        "",
        _QUANTILES,
        "",
        "## How many time series",
        "",
        *_cardinality(),
    ]
    for component, heading in _HEADINGS.items():
        lines += ["", f"## {heading}", "", *_table(METRICS[component])]
    return "\n".join(lines) + "\n"


def _names(names: str) -> str:
    return ", ".join(f"`{name}`" for name in names.split(", "))


def _table(rows: tuple[Metric, ...]) -> list[str]:
    head = ["| metric | type | labels | what it tells |", "|---|---|---|---|"]
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
    return f"{seconds:g} s" if seconds >= 1 else f"{seconds * 1e6:g} us"


def series_of(metric: Metric) -> int:
    """Return how many time series one set of a metric's labels has."""
    # A histogram's bucket without a bound, its count and its sum.
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
        if "step" in metric.labels
    )


def _cardinality() -> list[str]:
    server = sum(
        series_of(metric) * (_PROTOCOLS if "protocol" in metric.labels else 1)
        for metric in METRICS["server"]
        if metric != metrics.SERVER_REQUESTS
    )
    run = len((metrics.RUN_INFO, metrics.RUN_STARTED, metrics.RUN_FINISHED))
    scenario = sum(
        _PERCENTILES_TOLD if "percentile" in metric.labels else 1
        for metric in METRICS["operator"]
        if "scenario" in metric.labels
    )
    one, three, most = (
        _FINISHED_RUNS * (run + count * scenario) for count in (1, 3, _MOST_SCENARIOS)
    )
    going = len((metrics.RUN_PHASE_SINCE, metrics.RUN_DEADLINE))
    load = (
        f"A load generator has {step_series()} series for each step of an open-loop scenario, "
        f"{series_of(metrics.LOAD_LATENCY)} of them the latency's. They end with its pod."
    )
    serving = (
        f"A server has {server}, and one for each combination of protocol, endpoint and code that "
        "was asked for."
    )
    operating = (
        f"The operator has, for each of the newest {_FINISHED_RUNS} finished runs, {run} and "
        f"{scenario} for each scenario: {one:,} where {_FINISHED_RUNS} runs have one scenario "
        f"each, {three:,} where they have three, {most:,} at most, where each has "
        f"{_MOST_SCENARIOS}. Each of {_FINISHED_RUNS} runs that are not finished has {going}; of "
        "more, those that have begun come first, and of these the longest in their phase."
    )
    return [
        "Every label has few values: nothing that a client sends becomes one.",
        "",
        *(f"* {line}" for line in (load, serving, operating)),
    ]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
