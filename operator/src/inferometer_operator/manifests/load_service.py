"""The headless Service that gives load pods DNS names: for a fleet, and for spans of servers."""

from hashlib import sha256

from inferometer_api.plan.cluster_objects import (
    COMPONENT_LABEL,
    FLEET_PORT,
    LOADGEN,
    RUN_UID_LABEL,
    load_name,
    load_service_name,
)
from inferometer_api.plan.launch import fleet_pods
from inferometer_api.plan.load_plan import PlannedFleet
from inferometer_api.spec.run import BenchmarkRun
from inferometer_operator.manifests.owner import Manifest, Owner, child_metadata


def load_service(run: BenchmarkRun, owner: Owner) -> Manifest | None:
    """Return the headless Service of a run's load pods; None if no pod looks for them by name.

    It publishes addresses before readiness: the pods become ready only by finding each other.
    """
    ports = load_service_ports(run)
    if not ports:
        return None
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": child_metadata(owner, load_service_name(owner.name), LOADGEN),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {RUN_UID_LABEL: owner.uid, COMPONENT_LABEL: LOADGEN},
            "ports": [
                {"name": name, "port": port, "targetPort": port, "protocol": "TCP"}
                for name, port in ports.items()
            ],
        },
    }


def load_service_ports(run: BenchmarkRun) -> dict[str, int]:
    """Return the ports of a run's load pods that others find by name."""
    ports = {}
    if fleet_pods(run) > 1:
        ports["fleet"] = FLEET_PORT
    if run.spec.load.receiver_port is not None:
        ports["spans"] = run.spec.load.receiver_port
    return ports


def planned_fleet(run: BenchmarkRun, owner: Owner, token: str) -> PlannedFleet | None:
    """Return where the workers of a resolved run find their master, or None without a fleet.

    The fleet's token comes from the run's, so that workers cannot end the run by it.
    """
    if run.spec.load.workers == 1:
        return None
    # The DNS name that Job and Service give to the pod of index 0.
    host = f"{load_name(owner.name)}-0.{load_service_name(owner.name)}.{owner.namespace}.svc"
    return PlannedFleet(
        host=host,
        port=FLEET_PORT,
        starts_workers=False,
        token=sha256(f"fleet {token}".encode()).hexdigest(),
        ready_deadline_seconds=run.spec.server.ready_deadline_seconds,
    )
