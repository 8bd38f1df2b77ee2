"""The headless Service that gives the pods of a fleet their DNS names."""

from hashlib import sha256

from inferometer_api.plan.cluster_objects import (
    COMPONENT_LABEL,
    FLEET_PORT,
    LOADGEN,
    RUN_UID_LABEL,
    fleet_name,
    load_name,
)
from inferometer_api.plan.load_plan import PlannedFleet
from inferometer_api.spec.run import BenchmarkRun
from inferometer_operator.manifests.owner import Manifest, Owner, child_metadata


def fleet_service(owner: Owner) -> Manifest:
    """Return the headless Service of a run's load pods.

    It publishes addresses before readiness: the pods become ready only by finding each other.
    """
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": child_metadata(owner, fleet_name(owner.name), LOADGEN),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {RUN_UID_LABEL: owner.uid, COMPONENT_LABEL: LOADGEN},
            "ports": [
                {
                    "name": "fleet",
                    "port": FLEET_PORT,
                    "targetPort": FLEET_PORT,
                    "protocol": "TCP",
                }
            ],
        },
    }


def planned_fleet(run: BenchmarkRun, owner: Owner, token: str) -> PlannedFleet | None:
    """Return where the workers of a resolved run find their master, or None without a fleet.

    The fleet's token comes from the run's, so that workers cannot end the run by it.
    """
    if run.spec.load.workers == 1:
        return None
    # The DNS name that Job and Service give to the pod of index 0.
    host = f"{load_name(owner.name)}-0.{fleet_name(owner.name)}.{owner.namespace}.svc"
    return PlannedFleet(
        host=host,
        port=FLEET_PORT,
        starts_workers=False,
        token=sha256(f"fleet {token}".encode()).hexdigest(),
        ready_deadline_seconds=run.spec.server.ready_deadline_seconds,
    )
