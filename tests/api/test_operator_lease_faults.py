"""The leader goes on whatever happens to its Lease, as long as no other operator has it."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from inferometer_api.plan.cluster_objects import LEASE, LOADGEN
from support.fault_proxy import Fault, FaultProxy
from support.stage import Stage

_SHORT = ("--lease-seconds", "15")


def _lease(stage: Stage) -> dict[str, Any]:
    """Return the spec of the Lease, empty while there is none."""
    return (stage.api.found("Lease", stage.namespace, LEASE) or {}).get("spec") or {}


def _wait_for_renewals(stage: Stage, count: int) -> None:
    """Wait until the Lease shows so many further renewals."""
    times = {_lease(stage).get("renewTime", "")}

    def renewed() -> bool:
        times.add(_lease(stage).get("renewTime", ""))
        return len(times - {""}) > count

    stage.wait_for(
        renewed,
        lambda: f"renewal number {count} of {_lease(stage)}:\n{stage.logs()}",
    )


def _delete(stage: Stage, _: FaultProxy) -> None:
    stage.api.delete("Lease", stage.namespace, LEASE)


def _lose_answers(_: Stage, proxy: FaultProxy) -> None:
    lost: list[str] = []

    def rule(method: str, path: str) -> Fault:
        if method == "PUT" and "/leases/" in path and len(lost) < 2:
            lost.append(path)
            return "lost"
        return "none"

    proxy.rule = rule


def _conflict(stage: Stage, proxy: FaultProxy) -> None:
    written = threading.Event()

    def rule(method: str, path: str) -> Fault:
        if method == "PUT" and "/leases/" in path and not written.is_set():
            # Between its read and its write.
            metadata = {"annotations": {"third": "writer"}}
            stage.api.merge("Lease", stage.namespace, LEASE, {"metadata": metadata})
            written.set()
        return "none"

    proxy.rule = rule


@pytest.mark.parametrize("fault", [_delete, _lose_answers, _conflict])
def test_a_leader_keeps_its_lease(
    stage: Stage, tmp_path: Path, fault: Callable[[Stage, FaultProxy], None]
) -> None:
    """Its Lease deleted, its renewals' answers lost, or written by a third client: it leads on."""
    proxy = FaultProxy(stage.control_plane, tmp_path)
    stage.play(LOADGEN, stage.loads.follow)
    leader = stage.start_operator(*_SHORT, through=proxy)
    stage.apply()
    stage.load().show("Measuring", "latency")
    stage.wait("Measuring")
    holder = _lease(stage)["holderIdentity"]
    fault(stage, proxy)
    _wait_for_renewals(stage, 3)
    assert _lease(stage)["holderIdentity"] == holder
    stage.load().judge("latency")
    stage.load().end()
    stage.finished()
    assert stage.condition("Complete")["status"] == "True"
    assert leader.exit_code is None
    assert len(leader.log_events("lease_acquired")) == 1
    proxy.close()


def test_a_container_that_is_restarted_in_place_leads_again_at_once(stage: Stage) -> None:
    """The same pod need not wait for the Lease of its own last start; another pod must."""
    words = ("--lease-seconds", "3600")
    leader = stage.start_operator(*words, environment={"POD_UID": "0001"})
    other = stage.begin_operator(*words, environment={"POD_UID": "0002"})
    other.wait_for_log("health_served")
    leader.kill()
    leader.start()
    leader.wait_for_log("lease_acquired", 2)
    stage.apply()
    stage.finished()
    assert not other.log_events("lease_acquired")
