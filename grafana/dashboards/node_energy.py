"""The panels of a node's power, energy per inference, and energy sources."""

from grafana.dashboards import palette
from grafana.dashboards.finished import median_joules
from grafana.dashboards.frame import Panels
from grafana.dashboards.panels import Query, lines, stacked, states
from grafana.dashboards.promql import NODE, RATE, of, process_of, rate
from grafana.dashboards.tables import bars
from inferometer_api.metrics import definitions as m
from inferometer_api.metrics.definitions import Metric


def panels() -> Panels:
    """Return the panels on power and energy."""
    return [*_power(), *_per_inference()]


def _power() -> Panels:
    by_domain = f"max by (node, domain, kind) ({of(m.NODE_POWER, NODE)})"
    counted = f"max by (node, domain, kind) ({rate(m.NODE_ENERGY, NODE)})"
    return [
        stacked(
            lines(
                "Power by domain",
                "watt",
                "Watts, from inferometer_node_power_watts: CPU packages, their DRAM, GPUs. A "
                "missing domain has no counter, or the agent may not read it: see the sources "
                "below.",
                Query(by_domain, "{{node}} {{domain}} {{kind}}"),
            )
        ).span(12),
        stacked(
            lines(
                "Energy by kind, per second",
                "watt",
                "The same power from the counters, inferometer_node_energy_joules_total: the "
                "source of the results' joules. Unlike the gauges, it includes everything between "
                "two scrapes.",
                Query(f"sum by (node, kind) ({counted})", "{{node}} {{kind}}"),
            )
        ).span(12),
    ]


def _per_inference() -> Panels:
    return [
        bars(
            "Joules per inference by node",
            "joule",
            "Finished runs on these nodes, gross, from inferometer_run_joules_per_inference: the "
            "median of the VALID ones by node, model, scenario, step, attribution. If one model "
            "differs much between nodes, use Compare by node.",
            {"gross": palette.DOUBTFUL},
            Query(_by_node(m.RUN_JOULES), "gross"),
        ).span(12),
        bars(
            "Net joules per inference by node",
            "joule",
            "The same without the power of the idle server, from "
            "inferometer_run_net_joules_per_inference: the cost of one more inference. If it is "
            "below 0, the node used less power under load than before: increase idleSeconds.",
            {"net": palette.GOOD},
            Query(_by_node(m.RUN_NET_JOULES), "net"),
        ).span(12),
    ]


def agents() -> Panels:
    """Return the panels on the agents themselves."""
    cpu = process_of(f"rate(process_cpu_seconds_total[{RATE}])", m.AGENT_SAMPLES, NODE)
    seconds = f"max by (node) ({rate(m.AGENT_SAMPLE_SECONDS, NODE)})"
    samples = f"max by (node) ({rate(m.AGENT_SAMPLES, NODE)})"
    return [
        states(
            "Sources",
            "The sources with figures, from inferometer_agent_source_available. If one is red, "
            "the agent's log has the reason. rapl needs root (or a group) since 2020 and is "
            "missing in most virtual machines; nvml needs NVIDIA's driver.",
            {1: ("gives figures", palette.GOOD), 0: ("gives none", palette.BAD)},
            Query(f"max by (node, source) ({of(m.AGENT_SOURCE, NODE)})", "{{node}} {{source}}"),
        ).span(12),
        lines(
            "Cost of the agents",
            "percentunit",
            "CPU time of the agents' processes, as a share of one core, from their "
            "process_cpu_seconds_total. It should stay below 1 %. Above, clients request too many "
            "targets, or a driver answers slowly.",
            Query(f"sum by (instance) ({cpu})", "{{instance}}"),
        ).span(6),
        lines(
            "Time per sample",
            "s",
            "Time that an agent needs for one sample, from inferometer_agent_sample_seconds_total "
            "over inferometer_agent_samples_total.",
            Query(f"{seconds} / {samples}", "{{node}}"),
        ).span(6),
    ]


def _by_node(metric: Metric) -> str:
    """Return the median of joules of finished runs by node, model, scenario and step."""
    return median_joules(metric, "node", "model", where="", of_runs=NODE)
