"""Live joules per inference, from the counters of nodes and load generator."""

from grafana.dashboards.promql import RATE, STEP, of, of_run_nodes, of_run_workloads, rate
from inferometer_api.metrics import definitions as m

_MEASURING = 'stage="Measuring"'
CPU = 'kind!="Gpu"'
GPU = 'kind="Gpu"'


def watts(where: str) -> str:
    """Return the power of the run's nodes by node and kind, of the energy counters."""
    by_domain = f"max by (node, domain, kind) ({rate(m.NODE_ENERGY, where)})"
    return f"sum by (node, kind) ({of_run_nodes(by_domain)})"


def share() -> str:
    """Return the part of a node's busy CPU time that is of the run's servers, by node."""
    servers = of_run_workloads(f"max by (node, workload) ({rate(m.WORKLOAD_CPU)})")
    busy = f"max by (node) ({rate(m.NODE_CPU_BUSY)})"
    return f"clamp_max(sum by (node) ({servers}) / on (node) {busy}, 1)"


def shared_joules() -> str:
    """Return live joules per inference: CPU energy by the servers' share, GPUs as a whole."""
    shared = f"{watts(CPU)} * on (node) group_left () {share()}"
    return f"sum(({shared}) or {watts(GPU)}) / {_inferences()}"


def node_joules() -> str:
    """Return live joules per inference, all energy of the nodes counted."""
    return f"sum({watts('')}) / {_inferences()}"


def _inferences() -> str:
    """Return inferences per second, where the whole rate interval was measuring."""
    measuring = f"min_over_time({of(m.LOAD_STAGE, f'{STEP}, {_MEASURING}')}[{RATE}]) == 1"
    return f"(sum({rate(m.LOAD_SAMPLES, STEP)}) > 0 and on () ({measuring}))"
