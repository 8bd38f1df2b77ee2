"""Handover of the servers of a further repeat to the load generator that awaits them."""

from inferometer_api.plan.load_plan import ServerTargets
from inferometer_operator.reconcile.agent_assignment import assign_agents
from inferometer_operator.reconcile.context import ReconcileContext
from inferometer_operator.reconcile.load_state import LoadState
from inferometer_operator.reconcile.plan import Handover
from inferometer_operator.reconcile.server_state import ServerProgress


def plan_handover(
    context: ReconcileContext, load: LoadState, served: ServerProgress
) -> Handover | None:
    """Return the handover to request now, once every server has a node and an address.

    The load generator waits until they are ready. It takes the servers of a repeat once, so that an
    operator that does not know whether they were taken hands them over again.
    """
    repeat = context.awaited_repeat
    is_due = repeat is not None and not context.is_between_servers and load.stage == "running"
    if repeat is None or not is_due or not served.servers:
        return None
    found = assign_agents(context, served.servers)
    if found.until is not None and context.now < found.until and not served.ready:
        return None
    targets = ServerTargets(
        repeat=repeat,
        servers=list(served.servers),
        agents=list(found.agents),
        energy_unavailable_reason=found.unmetered,
    )
    return Handover(load.pod_name, targets)
