"""Reads of Kueue's cluster-wide objects, which no watch delivers."""

from dataclasses import dataclass, field

import structlog

from inferometer_api.plan.cluster_objects import PRIORITY_CLASS_LABEL
from inferometer_operator.cluster.errors import ApiError
from inferometer_operator.cluster.reader import Reader
from inferometer_operator.reconcile.observed import Json, KueueObjects
from inferometer_operator.reconcile.workload_state import assigned_flavors, queue_name, run_label

_log = structlog.get_logger()


@dataclass(slots=True)
class KueueMemory:
    """The flavors that were found for a run, by name: they are read once."""

    flavors: dict[str, Json] = field(default_factory=dict)


async def read_kueue(
    reader: Reader, run: Json, workload: Json | None, memory: KueueMemory, *, reads: bool
) -> KueueObjects:
    """Return the assigned flavors and, until there is a Workload, the priority class of a run."""
    if not reads or (workload is None and not queue_name(run)):
        return KueueObjects(dict(memory.flavors))
    wanted = run_label(run, PRIORITY_CLASS_LABEL)
    if workload is None:
        memory.flavors.clear()
        found = await _read(reader, "WorkloadPriorityClass", wanted) if wanted else None
        return KueueObjects(priority_class=found)
    flavors: dict[str, Json | None] = {}
    for name in assigned_flavors(workload):
        flavor = memory.flavors.get(name) or await _read(reader, "ResourceFlavor", name)
        flavors[name] = flavor
        if flavor is not None:
            memory.flavors[name] = flavor
    return KueueObjects(flavors)


async def _read(reader: Reader, kind: str, name: str) -> Json | None:
    """Return an object of the cluster, or None if it is absent or may not be read."""
    try:
        found: Json | None = await reader.get(kind, None, name)
    except ApiError as error:
        if error.code != 403:
            raise
        _log.warning("kueue_object_not_readable", kind=kind, name=name, error=str(error))
        return None
    return found
