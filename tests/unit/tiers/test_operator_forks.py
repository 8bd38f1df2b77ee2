"""Tests kill operators that they have forked."""

import signal
import subprocess
import sys
from pathlib import Path

from support.operator_forks import ForkedOperator
from support.waiting import DEADLINE_SECONDS


def test_an_operator_that_has_ended_is_not_killed(tmp_path: Path) -> None:
    """Its exit code may not be written yet."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait(DEADLINE_SECONDS)
    exit_file = tmp_path / "exit"
    operator = ForkedOperator(ended.pid, exit_file)
    operator.send_signal(signal.SIGKILL)
    exit_file.write_text("0\n")
    assert operator.wait() == 0
