"""A run ends right even if the operator dies after every one of its writes."""

from pathlib import Path

from support.crash_courses import LAUNCHED
from support.crash_walk import CrashWalk
from support.fault_proxy import FaultProxy
from support.stage import Stage


def test_an_operator_that_is_killed_after_every_write_ends_a_launched_run_right(
    stage: Stage, tmp_path: Path
) -> None:
    """Each write's answer is lost with its operator; the next one creates no child twice."""
    proxy = FaultProxy(stage.control_plane, tmp_path)
    try:
        crashes = CrashWalk(stage, proxy).crash_after_every_write(LAUNCHED)
    finally:
        proxy.close()
    # Five statuses, four children, and their deletions, at least.
    assert crashes >= 12
