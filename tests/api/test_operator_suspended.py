"""Of two operators one leads, also if the kernel suspends it and lets it go on."""

import os
import signal
from pathlib import Path

from support.fault_proxy import Fault, FaultProxy
from support.stage import Stage

_LEASE = ("--lease-seconds", "60")
"""A machine without CPU for seconds must not cost the Lease."""


class _Recorder:
    """A rule that lets every request pass and records the writes."""

    def __init__(self) -> None:
        self.writes: list[str] = []

    def __call__(self, method: str, path: str) -> Fault:
        """Record a request."""
        if method != "GET":
            self.writes.append(f"{method} {path}")
        return "none"


def test_a_leader_that_was_suspended_writes_nothing_and_ends(stage: Stage, tmp_path: Path) -> None:
    """Another leads meanwhile and ends the run; nothing is done twice."""
    recorder = _Recorder()
    proxy = FaultProxy(stage.control_plane, tmp_path)
    proxy.rule = recorder
    stage.play("loadgen", stage.loads.follow)
    first = stage.start_operator(*_LEASE, through=proxy)
    stage.apply()
    load = stage.load()
    load.show("Measuring", "latency")
    stage.wait("Measuring")
    other = stage.begin_operator(*_LEASE)
    other.wait_for_log("health_served")
    os.kill(first.pid, signal.SIGSTOP)
    try:
        written = len(recorder.writes)
        stage.wait_for(lambda: other.log_events("lease_acquired"), "another leader")
        load.end()
        status = stage.finished()
        stage.apply("next")
        stage.load("next").show("Measuring", "latency")
        stage.wait("Measuring", name="next")
    finally:
        os.kill(first.pid, signal.SIGCONT)
    stage.wait_for(lambda: first.exit_code is not None, "the end of the operator of before")
    assert first.exit_code == 1
    assert recorder.writes[written:] == []
    assert stage.status() == status
    stage.load("next").end()
    stage.finished("next")
    assert other.exit_code is None
    proxy.close()
