"""Measurements of this machine by `inferometer node` that still hold."""

import platform
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from inferometer_api.nodes.benchmark import NodeBenchmarkSpec
from inferometer_api.nodes.characteristics import MachineIdentity, NodeCharacteristics
from inferometer_api.nodes.fitness import load_generation_faults
from inferometer_api.timestamps import parse_time
from inferometer_cli.exits import FailedError, RefusedError

if TYPE_CHECKING:
    from inferometer_results.store.store import Store

_EXPIRY = timedelta(seconds=NodeBenchmarkSpec().expiry_seconds)
"""As of a NodeBenchmark: until then a machine hardly changes."""


def recent_measurements(store: "Store") -> list[NodeCharacteristics]:
    """Return the measurements of this machine that have not expired, the earliest first.

    A machine of the same name with other CPUs is another one.
    """
    from inferometer_results.store.node_characteristics import known_characteristics
    from inferometer_serving.node.machine import machine_identity

    here, oldest = _kind(machine_identity()), datetime.now(UTC) - _EXPIRY
    return [
        each
        for each in known_characteristics(store, platform.node())
        if _kind(each.machine) == here
        and (finished := parse_time(each.finished_at)) is not None
        and finished > oldest
    ]


def load_generation_warnings() -> list[str]:
    """Return what the user's own database knows against measuring latencies from this machine."""
    from inferometer_cli.result_store import open_store
    from inferometer_results.store.database import default_address

    address = default_address()
    if "://" not in address and not Path(address).exists():
        return []  # a new database knows nothing
    try:
        with open_store(address) as store:
            return list(load_generation_faults(recent_measurements(store)))
    except (FailedError, RefusedError, OSError):
        return []  # the end of the run says what is wrong with the database


def _kind(machine: MachineIdentity) -> tuple[str, str, int, int]:
    cache_bytes = machine.last_level_cache_bytes
    return machine.architecture, machine.cpu_model, machine.cpu_count, cache_bytes
