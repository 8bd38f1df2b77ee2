"""The dashboard Nodes: load, power, what NodeBenchmarks have measured, and agents."""

from grafana_foundation_sdk.builders.dashboard import Dashboard

from grafana.dashboards import node_benchmarks, node_energy, node_load
from grafana.dashboards.frame import filled, framed, query_variable, several
from inferometer_api.metrics import definitions as m

_SAYS = (
    "The nodes with an agent: utilisation, power by domain, throttling, and energy per inference. "
    "Below that what NodeBenchmarks have measured. Unavailable sources are at the bottom."
)


def dashboard() -> Dashboard:
    """Return the dashboard Nodes."""
    node = several(
        query_variable(
            "node", "Node", "Nodes with an agent.", of="node", where=m.AGENT_SAMPLES.name
        )
    )
    return filled(
        framed("Nodes", _SAYS, [node]).time("now-1h", "now"),
        [
            ("", node_load.at_a_glance()),
            ("", [node_load.table()]),
            ("Utilisation", node_load.panels()),
            ("Energy", node_energy.panels()),
            ("GPUs", node_load.gpu_panels()),
            ("Measured by NodeBenchmarks", node_benchmarks.panels()),
            ("Agents and their sources", node_energy.agents()),
        ],
    )
