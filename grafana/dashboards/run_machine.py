"""The panels of the servers' resource usage and of their nodes."""

from grafana.dashboards import energy, palette
from grafana.dashboards.frame import Panels
from grafana.dashboards.gpus import throttling
from grafana.dashboards.panels import Query, coloured, from_below, lines, stacked
from grafana.dashboards.promql import of, of_run_nodes, of_run_workloads, rate
from inferometer_api.metrics import definitions as m
from inferometer_api.metrics.definitions import Metric

_NO_AGENT = "Empty: Prometheus scraped no node agent on the server's node; see Nodes."
_WORKLOAD = "{{node}} {{workload}}"
_PRESSURE = rate(m.WORKLOAD_PRESSURE)


def panels() -> Panels:
    """Return the panels of the servers' processes, their nodes' CPUs, their energy."""
    return [*_processes(), *_cpus(), *_energy()]


def gpu_panels() -> Panels:
    """Return the panels of the GPUs on those nodes."""
    return [
        lines(
            "GPU utilisation",
            "percentunit",
            "Share of time in which a kernel of any process ran, from "
            "inferometer_gpu_utilization_ratio. If it is low with a long queue, the GPU waits for "
            "the host: use more instances, batching or a faster CPU. Empty without NVIDIA GPUs.",
            _of_gpus(m.GPU_UTILIZATION),
        )
        .max(1)
        .span(6),
        lines(
            "GPU memory",
            "bytes",
            "Used and total memory, from inferometer_gpu_memory_used_bytes and "
            "inferometer_gpu_memory_total_bytes. If it is near the total, use fewer instances or "
            "smaller batches.",
            _of_gpus(m.GPU_MEMORY_USED, " used"),
            _of_gpus(m.GPU_MEMORY_TOTAL, " total"),
        ).span(6),
        from_below(
            lines(
                "GPU clock",
                "hertz",
                "Clock of the streaming multiprocessors, from inferometer_gpu_clock_hertz. If it "
                "falls under load, GPU throttling shows the reason.",
                _of_gpus(m.GPU_CLOCK),
            )
        ).span(6),
        throttling("", of_run_nodes).span(6).height(8),
    ]


def _short(expr: str) -> str:
    """Return an expression whose label target is a pod UID's last part: legends are narrow."""
    return f'label_replace({expr}, "workload", "$1", "workload", "(?:.*-)?(.+)")'


def _of_gpus(metric: Metric, what: str = "") -> Query:
    return Query(
        f"max by (node, gpu) ({of_run_nodes(of(metric))})", f"{{{{node}}}} {{{{gpu}}}}{what}"
    )


def _of_targets(metric: Metric, what: str = "") -> Query:
    series = rate(metric) if metric.type == "counter" else of(metric)
    return Query(
        _short(f"max by (node, workload) ({of_run_workloads(series)})"), f"{_WORKLOAD}{what}"
    )


def _processes() -> Panels:
    return [
        lines(
            "Server's CPU and throttling",
            "none",
            "Cores that each server uses (inferometer_workload_cpu_seconds_total), and the number "
            "of threads that its CPU limit stopped "
            "(inferometer_workload_cpu_throttled_seconds_total). Throttled above 0: the limit, not "
            f"the CPU, is what was measured. Raise resources.cpu or lower threads. {_NO_AGENT}",
            _of_targets(m.WORKLOAD_CPU, " used"),
            _of_targets(m.WORKLOAD_THROTTLED, " throttled"),
        ),
        lines(
            "Server's memory",
            "bytes",
            "Working set of the servers, from inferometer_workload_memory_bytes. If it rises "
            "during the whole run, look for a leak or a growing arena. Near the limit, Kubernetes "
            "kills the pod.",
            _of_targets(m.WORKLOAD_MEMORY),
        ),
        lines(
            "Server's pressure",
            "percentunit",
            "Share of time in which a thread of a server waited for CPU, memory or disk (PSI), "
            "from inferometer_workload_pressure_seconds_total. CPU above a few percent: other "
            "processes, or too many threads. Memory or io above 0: too little memory. Only for "
            "pods on kernels with control groups v2.",
            Query(
                _short(f"max by (node, workload, resource) ({of_run_workloads(_PRESSURE)})"),
                f"{_WORKLOAD} {{{{resource}}}}",
            ),
        ),
    ]


def _cpus() -> Panels:
    busy = f"max by (node) ({of_run_nodes(rate(m.NODE_CPU_BUSY))})"
    steal = f"max by (node) ({of_run_nodes(rate(m.NODE_CPU_STEAL))})"
    count = f"max by (node) ({of_run_nodes(of(m.NODE_CPUS))})"
    return [
        lines(
            "Node's CPUs",
            "percentunit",
            "Busy: share of all CPUs' time in user and kernel mode "
            "(inferometer_node_cpu_busy_seconds_total over inferometer_node_cpus); stolen: time "
            "that the hypervisor gave to other machines. If stolen is above 0, measure on another "
            "machine.",
            Query(f"{busy} / {count}", "{{node}} busy"),
            Query(f"{steal} / {count}", "{{node}} stolen"),
        ).max(1),
        from_below(
            lines(
                "Node's frequency",
                "hertz",
                "Mean frequency of the CPUs, from inferometer_node_cpu_frequency_hertz. If it "
                "falls under load, look for power or thermal limits. If it varies, set the "
                "governor to performance. Empty if the node does not report it, like most virtual "
                "machines.",
                Query(f"max by (node) ({of_run_nodes(of(m.NODE_FREQUENCY))})", "{{node}}"),
            )
        ),
        from_below(
            lines(
                "Node's temperature",
                "celsius",
                "The hottest of the CPU's sensors, from inferometer_node_cpu_temperature_celsius. "
                "At the CPU's limit its clock falls: compare with the frequency.",
                Query(f"max by (node) ({of_run_nodes(of(m.NODE_TEMPERATURE))})", "{{node}}"),
            )
        ),
    ]


def _energy() -> Panels:
    power = of_run_nodes(f"max by (node, domain, kind) ({of(m.NODE_POWER)})")
    return [
        coloured(
            stacked(
                lines(
                    "Power by domain",
                    "watt",
                    "Watts of the server's nodes, from inferometer_node_power_watts: CPU packages, "
                    f"their DRAM, GPUs. They cover the whole node. {_NO_AGENT}",
                    Query(power, "{{kind}} {{domain}} {{node}}"),
                )
            ),
            palette.ENERGY,
        ).span(12),
        coloured(
            lines(
                "Joules per inference, live",
                "joule",
                "Gross, from inferometer_node_energy_joules_total. Server: CPU and DRAM energy by "
                "the servers' share of the busy CPU time, GPUs as a whole. Node: everything the "
                "nodes used. If they differ much, other processes run there, or the node is mostly "
                "idle. The result's net figure is without the idle power and covers the window "
                f"only. {_NO_AGENT}",
                Query(energy.shared_joules(), "server"),
                Query(energy.node_joules(), "node"),
            ),
            {"server": palette.ACHIEVED, "node": palette.DOUBTFUL},
        ).span(12),
    ]
