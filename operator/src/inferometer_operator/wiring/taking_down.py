"""How is ended what a run has begun, whatever its spec says?"""

from typing import Literal

from inferometer_api.plan.cluster_objects import fleet_name, load_name, server_name
from inferometer_operator.cluster.reader import Reader
from inferometer_operator.cluster.writer import Writer
from inferometer_operator.reconcile.observed import Json
from inferometer_operator.reconcile.plan import Target

_Kind = Literal["Job", "Deployment", "ConfigMap", "Service"]


async def delete_children(reader: Reader, writer: Writer, run: Json) -> bool:
    """Delete a run's Job, Deployment, plan and Service; return whether each was gone already.

    The load goes before its server, so that no request meets one that ends.
    """
    metadata = run["metadata"]
    namespace, name, uid = metadata["namespace"], metadata["name"], metadata["uid"]
    children: tuple[tuple[_Kind, str], ...] = (
        ("Job", load_name(name)),
        ("Deployment", server_name(name)),
        ("ConfigMap", load_name(name)),
        ("Service", fleet_name(name)),
    )
    gone = True
    for kind, child_name in children:
        child = await reader.get_child(kind, namespace, child_name, uid)
        if child is None:
            continue
        gone = False
        if not child["metadata"].get("deletionTimestamp"):
            await writer.delete(namespace, Target(kind, child_name, child["metadata"]["uid"]))
    return gone
