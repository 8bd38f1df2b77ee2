"""Starts the harness's processes so that none outlives the process that started them.

A guard reads from a pipe whose other end is ours alone; when we end, however that happens, the
pipe closes and the guard kills its whole process group, in which everything else runs.
"""

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

_LOG_TAIL_BYTES = 3000
_LESS_COLLECTION = {"GOGC": "300"}
"""What runs is written in Go: an API server takes a seventh less time with more memory."""


class Process:
    """One program that can be killed, paused and started again with the same command line."""

    def __init__(self, name: str, command: Sequence[str | Path], log: Path, group: int) -> None:
        self.name = name
        self.log = log
        self._command = [str(word) for word in command]
        self._group = group
        self._popen = self._begin()

    def _begin(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=self._group,
                env={**_LESS_COLLECTION, **os.environ},
            )

    @property
    def pid(self) -> int:
        """Return its process id, as seen from outside of every namespace."""
        return self._popen.pid

    @property
    def running(self) -> bool:
        """Return whether it has not ended, by itself or by `kill`."""
        return self._popen.poll() is None

    def start(self) -> None:
        """Start it again after it was killed."""
        if self.running:
            raise RuntimeError(f"{self.name} was to be started again, and it still runs.")
        self._popen = self._begin()

    def kill(self) -> None:
        """End it at once, as a machine that loses its power would."""
        self._popen.kill()
        self._popen.wait()

    def pause(self) -> None:
        """Stop it where it stands: its connections stay open without an answer."""
        self._popen.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on after `pause`."""
        self._popen.send_signal(signal.SIGCONT)

    def wait(self) -> int:
        """Wait for its end and return its exit code."""
        return self._popen.wait()

    def tail(self) -> str:
        """Return the end of its log."""
        return self.log.read_bytes()[-_LOG_TAIL_BYTES:].decode(errors="replace")


class Group:
    """The processes of one cluster, whose logs lie in one folder."""

    def __init__(self, logs: Path) -> None:
        logs.mkdir(parents=True, exist_ok=True)
        self._logs = logs
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", "read -r line; kill -KILL 0"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            process_group=0,
        )
        self._processes: list[Process] = []

    def start(self, name: str, command: Sequence[str | Path]) -> Process:
        """Start a program that dies with us and logs to `NAME.log`."""
        process = Process(name, command, self._logs / f"{name}.log", self._guard.pid)
        self._processes.append(process)
        return process

    def stop(self) -> None:
        """Kill every process of the group and wait until none is left."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._guard.pid, signal.SIGKILL)
        for process in self._processes:
            process.wait()
        self._guard.wait()
        if self._guard.stdin is not None:
            self._guard.stdin.close()
