"""Reads of what NodeBenchmarks found against nodes on which load may be generated."""

from dataclasses import dataclass
from datetime import datetime

import structlog

from inferometer_api.nodes.fitness import load_node_faults
from inferometer_api.plan.load_plan import LoadNodeFault
from inferometer_operator.cluster.errors import ApiError
from inferometer_operator.cluster.reader import Reader
from inferometer_operator.reconcile.nodes.draft import read_node_status
from inferometer_operator.reconcile.observed import Json
from inferometer_operator.settings import Settings

_log = structlog.get_logger()


@dataclass(slots=True)
class LoadNodeMemory:
    """What was read for the plan of a run."""

    faults: tuple[LoadNodeFault, ...] | None = None
    """None: not read yet."""


async def read_load_node_faults(
    reader: Reader,
    settings: Settings,
    run: Json,
    memory: LoadNodeMemory,
    now: datetime,
    *,
    reads: bool,
) -> tuple[LoadNodeFault, ...]:
    """Return the faults by NodeBenchmarks of the run's namespace, read once; `reads`: if due.

    A run does not fail without them.
    """
    if not reads or not settings.read_nodes:
        return ()
    if memory.faults is None:
        try:
            found = await reader.list_node_benchmarks(run["metadata"]["namespace"])
        except ApiError as error:
            if error.passing:
                raise
            _log.warning("node_benchmarks_not_listed", error=str(error))
            found = ()
        statuses = {each["metadata"]["name"]: read_node_status(each) for each in found}
        memory.faults = tuple(load_node_faults(statuses, now))
    return memory.faults
