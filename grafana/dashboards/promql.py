"""Builds queries from the names and labels of the metrics."""

from inferometer_api.metrics import definitions as m
from inferometer_api.metrics.definitions import Metric

RATE = "$__rate_interval"
RUN = 'run_namespace="$run_namespace", run="$run"'
SCENARIO = f'{RUN}, scenario=~"$scenario"'
STEP = f'{SCENARIO}, step=~"$step"'
NODE = 'node=~"$node"'
OPERATOR = 'namespace=~"$namespace"'
"""The namespace of the operator, as Prometheus found it; that of a run is in run_namespace."""


def of(metric: Metric, where: str = "") -> str:
    """Return the selector of a metric's series."""
    return f"{metric.name}{{{where}}}" if where else metric.name


def rate(metric: Metric, where: str = "", part: str = "") -> str:
    """Return the rate of a counter per second; `part` is _bucket, _sum or _count."""
    braces = f"{{{where}}}" if where else ""
    return f"rate({metric.name}{part}{braces}[{RATE}])"


def quantile(q: float, metric: Metric, where: str = "", by: str = "le") -> str:
    """Return a quantile of a histogram in the rate interval."""
    return f"histogram_quantile({q}, sum by ({by}) ({rate(metric, where, '_bucket')}))"


def mean(metric: Metric, where: str = "") -> str:
    """Return the mean of what a histogram was given in the rate interval."""
    return f"sum({rate(metric, where, '_sum')}) / sum({rate(metric, where, '_count')})"


def of_run_nodes(expr: str) -> str:
    """Return the part of an expression that is of the nodes of the run's servers."""
    return f"{expr} and on (node) {of(m.LOAD_SERVER_INFO, RUN)}"


def of_run_workloads(expr: str) -> str:
    """Return the part of an expression that is of the run's servers."""
    return f"{expr} and on (node, workload) {of(m.LOAD_SERVER_INFO, RUN)}"


def process_of(metric: str, exposed: Metric, where: str = "") -> str:
    """Return a metric of the processes that expose another: they share job and instance."""
    return f"{metric} and on (job, instance) {of(exposed, where)}"
