"""The panels of a node's load, temperature and clocks, and of its GPUs."""

from grafana_foundation_sdk.builders.common import GraphThresholdsStyleConfig
from grafana_foundation_sdk.builders.table import Panel as Table
from grafana_foundation_sdk.builders.timeseries import Panel as Lines
from grafana_foundation_sdk.models.common import GraphThresholdsStyleMode

from grafana.dashboards import palette
from grafana.dashboards.frame import Panels
from grafana.dashboards.gpus import throttling
from grafana.dashboards.panels import (
    Query,
    fact,
    from_below,
    lines,
    number,
    steps,
)
from grafana.dashboards.promql import NODE, of, rate
from grafana.dashboards.tables import columns, wide
from inferometer_api.metrics import definitions as m
from inferometer_api.metrics.definitions import Metric

_BUSY = f"max by (node) ({rate(m.NODE_CPU_BUSY, NODE)})"
_STEAL = f"max by (node) ({rate(m.NODE_CPU_STEAL, NODE)})"
_CPUS = f"max by (node) ({of(m.NODE_CPUS, NODE)})"
_GPU = "{{node}} {{gpu}}"


def of_node(metric: Metric) -> str:
    """Return a gauge by node."""
    return f"max by (node) ({of(metric, NODE)})"


def at_a_glance() -> Panels:
    """Return the figures that stand on top."""
    return [*_agents(), *_load()]


def _agents() -> Panels:
    sources = of(m.AGENT_SOURCE, NODE)
    return [
        fact(
            "Nodes with an agent",
            "short",
            "Nodes whose agent Prometheus scrapes, from inferometer_agent_samples_total. If there "
            "are fewer than expected, run `kubectl get pods` in the agent's namespace.",
            Query(f"count(max by (node) ({of(m.AGENT_SAMPLES, NODE)}))"),
        ),
        fact(
            "Unavailable sources",
            "short",
            "Sources without figures on all nodes, from inferometer_agent_source_available. If it "
            "is above 0, see the list below. A node without NVIDIA GPUs has no nvml, which is no "
            "fault. Empty: no agent answers.",
            Query(f"count({sources} == 0) or 0 * count({sources})"),
        ).thresholds(steps(palette.GOOD, (1, palette.DOUBTFUL))),
    ]


def _load() -> Panels:
    power = f"max by (node, domain) ({of(m.NODE_POWER, NODE)})"
    return [
        number(
            "CPUs busy",
            "percentunit",
            "Share of all CPU time of these nodes, from inferometer_node_cpu_busy_seconds_total.",
            Query(f"sum({_BUSY}) / sum({_CPUS})"),
        ).thresholds(steps(palette.GOOD, (0.8, palette.DOUBTFUL), (0.95, palette.BAD))),
        number(
            "CPU time stolen",
            "percentunit",
            "CPU time that hypervisors gave to other machines, from "
            "inferometer_node_cpu_steal_seconds_total. Above 1 %, measure on other machines.",
            Query(f"sum({_STEAL}) / sum({_CPUS})"),
        ).thresholds(steps(palette.GOOD, (0.01, palette.DOUBTFUL), (0.05, palette.BAD))),
        number(
            "Power",
            "watt",
            "Power of all domains of these nodes together, from inferometer_node_power_watts.",
            Query(f"sum({power})"),
        ),
        number(
            "Hottest CPU",
            "celsius",
            "From inferometer_node_cpu_temperature_celsius. Near 90 most CPUs lower their clock: "
            "check the node's cooling.",
            Query(f"max({of(m.NODE_TEMPERATURE, NODE)})"),
        ).thresholds(steps(palette.GOOD, (75, palette.DOUBTFUL), (88, palette.BAD))),
    ]


def table() -> Table:
    """Return the nodes, each with its state now."""
    power = f"sum by (node) (max by (node, domain) ({of(m.NODE_POWER, NODE)}))"
    governor = f"max by (node, governor) ({of(m.NODE_GOVERNOR, NODE)})"
    return columns(
        "Nodes now",
        "Each node's state at the end of the time range, from the agents' inferometer_node_* "
        "metrics. With a governor other than performance, the clock and thus every latency depend "
        "on earlier load. An empty cell is a figure that the node does not report.",
        ("node", "governor"),
        ("none", Query(governor)),
        ("short", Query(_CPUS, "CPUs")),
        ("percentunit", Query(f"{_BUSY} / {_CPUS}", "busy")),
        ("percentunit", Query(f"{_STEAL} / {_CPUS}", "stolen")),
        ("bytes", Query(of_node(m.NODE_MEMORY_AVAILABLE), "memory available")),
        ("hertz", Query(of_node(m.NODE_FREQUENCY), "frequency")),
        ("celsius", Query(of_node(m.NODE_TEMPERATURE), "temperature")),
        ("watt", Query(power, "power")),
    ).height(6)


def panels() -> Panels:
    """Return the courses of the nodes' CPUs and memory."""
    return [*_use(), *_heat()]


def _use() -> Panels:
    return [
        lines(
            "CPUs busy",
            "percentunit",
            "Share of all CPUs' time in user and kernel mode, from "
            "inferometer_node_cpu_busy_seconds_total over inferometer_node_cpus. If they are busy "
            "between runs, other processes share caches and power with the measured server.",
            Query(f"{_BUSY} / {_CPUS}", "{{node}}"),
        ).max(1),
        lines(
            "CPU time stolen",
            "percentunit",
            "Share of the CPUs' time that the hypervisor gave to other machines, from "
            "inferometer_node_cpu_steal_seconds_total. Above 1 %, the lower of the two lines, "
            "measure elsewhere. A run with stolen time gets a caution.",
            Query(f"{_STEAL} / {_CPUS}", "{{node}}"),
        )
        .thresholds(steps("transparent", (0.01, palette.DOUBTFUL), (0.05, palette.BAD)))
        .thresholds_style(GraphThresholdsStyleConfig().mode(GraphThresholdsStyleMode.DASHED)),
        lines(
            "Memory available",
            "bytes",
            "Memory that programs can still use without swapping, from "
            "inferometer_node_memory_available_bytes. Near 0, Kubernetes kills pods.",
            Query(of_node(m.NODE_MEMORY_AVAILABLE), "{{node}}"),
        ),
    ]


def _heat() -> Panels:
    return [
        from_below(
            lines(
                "Frequency",
                "hertz",
                "Mean frequency of the CPUs, from inferometer_node_cpu_frequency_hertz. If it "
                "falls under load, look for power or thermal limits. Empty if the node does not "
                "report it.",
                Query(of_node(m.NODE_FREQUENCY), "{{node}}"),
            )
        ).span(12),
        from_below(
            lines(
                "Temperature",
                "celsius",
                "The hottest of the CPU's sensors, from inferometer_node_cpu_temperature_celsius. "
                "If it rises from run to run, give the node time to cool, or improve its cooling.",
                Query(of_node(m.NODE_TEMPERATURE), "{{node}}"),
            )
        ).span(12),
    ]


def gpu_panels() -> Panels:
    """Return the GPUs, and their courses."""

    def course(title: str, unit: str, says: str, metric: Metric) -> Lines:
        return lines(title, unit, says, Query(f"max by (node, gpu) ({of(metric, NODE)})", _GPU))

    return [
        _gpus_now(),
        course(
            "GPU utilisation",
            "percentunit",
            "Share of time in which a kernel ran, from inferometer_gpu_utilization_ratio. If it "
            "is busy between runs, other processes use that GPU.",
            m.GPU_UTILIZATION,
        ).max(1),
        from_below(
            course(
                "GPU clock",
                "hertz",
                "Clock of the streaming multiprocessors, from inferometer_gpu_clock_hertz. If it "
                "is lower under load than idle, see the reason below.",
                m.GPU_CLOCK,
            )
        ),
        from_below(
            course(
                "GPU temperature",
                "celsius",
                "From inferometer_gpu_temperature_celsius. Above 80 most GPUs lower their clock.",
                m.GPU_TEMPERATURE,
            )
        ),
        throttling(NODE),
    ]


def _gpus_now() -> Table:
    gpus = columns(
        "GPUs now",
        'Every GPU, from inferometer_gpu_info and the other inferometer_gpu_* metrics. mig "true": '
        "cut into instances; energy and utilisation are of all of them together.",
        ("node", "gpu", "name", "uuid", "mig"),
        ("none", Query(f"max by (node, gpu, name, uuid, mig) ({of(m.GPU_INFO, NODE)})")),
        ("percentunit", Query(_by_gpu(m.GPU_UTILIZATION), "utilisation")),
        ("bytes", Query(_by_gpu(m.GPU_MEMORY_USED), "memory used")),
        ("bytes", Query(_by_gpu(m.GPU_MEMORY_TOTAL), "memory")),
        ("hertz", Query(_by_gpu(m.GPU_CLOCK), "clock")),
        ("celsius", Query(_by_gpu(m.GPU_TEMPERATURE), "temperature")),
    )
    return wide(gpus, {"name": 240, "uuid": 320}).height(5)


def _by_gpu(metric: Metric) -> str:
    return f"max by (node, gpu) ({of(metric, NODE)})"
