"""Operators that start within milliseconds, to be killed at any write."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from support.waiting import wait_until

_ZYGOTE = Path(__file__).with_name("operator_zygote.py")


class OperatorForks:
    """Starts operators by forking a process that has imported them."""

    def __init__(self) -> None:
        self._zygote = subprocess.Popen(
            [sys.executable, str(_ZYGOTE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._lock = threading.Lock()
        self._pids: set[int] = set()

    def start(self, words: list[str], log: Path) -> int:
        """Start an operator with these words of its command line; return its process ID."""
        request = {"words": words, "environment": {"POD_NAME": log.stem}, "log": str(log)}
        with self._lock:
            assert self._zygote.stdin is not None
            assert self._zygote.stdout is not None
            self._zygote.stdin.write(f"{json.dumps(request)}\n")
            self._zygote.stdin.flush()
            pid = int(self._zygote.stdout.readline())
            self._pids.add(pid)
        return pid

    def kill(self, pid: int) -> None:
        """Kill an operator, and wait until it is gone."""
        with self._lock:
            if pid not in self._pids:
                return
            self._pids.discard(pid)
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not Path(f"/proc/{pid}").exists(), f"the end of process {pid}")

    def close(self) -> None:
        """Kill all that are left."""
        for pid in list(self._pids):
            self.kill(pid)
        # It ends with its standard input.
        self._zygote.communicate()
