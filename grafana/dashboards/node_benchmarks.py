"""The panels of what NodeBenchmarks have measured on the nodes."""

from grafana_foundation_sdk.builders.table import Panel as Table
from grafana_foundation_sdk.builders.timeseries import Panel as Lines

from grafana.dashboards.frame import Panels
from grafana.dashboards.node_load import of_node
from grafana.dashboards.panels import Query, from_below, lines
from grafana.dashboards.tables import columns
from inferometer_api.metrics import definitions as m
from inferometer_api.metrics.definitions import Metric

_LEGEND = "{{node}}"


def panels() -> Panels:
    """Return what each node gives at best, now and over time."""
    return [_table(), *_courses()]


def _table() -> Table:
    return columns(
        "Measured nodes",
        "What each node gives at best, from the newest NodeBenchmark that has not expired "
        "(inferometer_node_benchmark_*). A node that stands apart from equal ones is slow: the "
        "explorer's page Nodes marks it. An empty cell is a figure that could not be measured.",
        ("node",),
        ("dateTimeFromNow", Query(f"1000 * {of_node(m.NODE_MEASURED)}", "measured")),
        ("Bps", Query(of_node(m.NODE_BANDWIDTH), "memory bandwidth")),
        ("s", Query(of_node(m.NODE_LOAD_LATENCY), "load latency")),
        ("flops", Query(of_node(m.NODE_PRODUCT_RATE), "matrix product FP32")),
        ("Bps", Query(of_node(m.NODE_DISK_RATE), "disk read")),
        ("s", Query(of_node(m.NODE_WAKE_UP_LAG), "wake-up lag p99")),
    ).height(6)


def _courses() -> Panels:
    def course(title: str, unit: str, says: str, metric: Metric, span: int) -> Lines:
        text = f"{says} From {metric.name}; a step is a new measurement."
        panel = lines(title, unit, text, Query(of_node(metric), _LEGEND))
        return from_below(panel).span(span)

    return [
        course(
            "Memory bandwidth",
            "Bps",
            "STREAM's triad with all CPUs. If it falls, look for a missing memory module or other "
            "pods.",
            m.NODE_BANDWIDTH,
            8,
        ),
        course(
            "Load latency",
            "s",
            "Time of one load from memory. If it rises, look at NUMA and at other pods.",
            m.NODE_LOAD_LATENCY,
            8,
        ),
        course(
            "Matrix product",
            "flops",
            "FP32 by the fastest engine. If it falls alone, look for a power limit, heat or "
            "another governor.",
            m.NODE_PRODUCT_RATE,
            8,
        ),
        course(
            "Disk read",
            "Bps",
            "Rate of reading a file that is not in memory. If it falls, models load more slowly.",
            m.NODE_DISK_RATE,
            12,
        ),
        course(
            "Wake-up lag",
            "s",
            "How late a timer is, p99. Above 1 ms the node is not fit to generate load.",
            m.NODE_WAKE_UP_LAG,
            12,
        ),
    ]
