"""Operators that start within milliseconds, each a process of its own."""

import atexit
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from support.waiting import wait_until

_ZYGOTE = Path(__file__).with_name("operator_zygote.py")


class ForkedOperator:
    """An operator that a zygote has forked."""

    def __init__(self, pid: int, exit_file: Path) -> None:
        self.pid = pid
        self._exit_file = exit_file
        self._lock = threading.Lock()
        self._code: int | None = None

    def poll(self) -> int | None:
        """Return the exit code, None while it runs."""
        if self._code is None:
            text = self._exit_file.read_text() if self._exit_file.exists() else ""
            # Known from then on: pytest may remove the file.
            self._code = int(text) if text.endswith("\n") else None
        return self._code

    def wait(self) -> int:
        """Wait for the end and return the exit code."""
        wait_until(lambda: self.poll() is not None, f"the end of process {self.pid}")
        code = self.poll()
        assert code is not None
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        with self._lock:
            if self.poll() is None:
                # Its zygote has waited for it, and writes its exit code soon.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it, and wait until it is gone."""
        self.send_signal(signal.SIGKILL)
        self.wait()


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
        self._started: list[ForkedOperator] = []

    def start(
        self,
        words: list[str],
        log: Path,
        environment: Mapping[str, str],
        *,
        impatient: bool = False,
    ) -> ForkedOperator:
        """Start an operator with these words of its command line.

        An impatient one gives up runs without nodes, and retries them, after seconds.
        """
        log.touch()
        with self._lock:
            exit_file = log.with_name(f"{log.name}.exit-{len(self._started)}")
            request = {
                "words": words,
                "environment": dict(environment),
                "log": str(log),
                "impatient": impatient,
                "exit_file": str(exit_file),
            }
            assert self._zygote.stdin is not None
            assert self._zygote.stdout is not None
            self._zygote.stdin.write(f"{json.dumps(request)}\n")
            self._zygote.stdin.flush()
            started = ForkedOperator(int(self._zygote.stdout.readline()), exit_file)
            self._started.append(started)
        return started

    def close(self) -> None:
        """Kill all that are left."""
        for each in self._started:
            each.kill()
        # It ends with its standard input.
        self._zygote.communicate()


@cache
def operator_forks() -> OperatorForks:
    """Return the forks of this process; they end with it."""
    forks = OperatorForks()
    atexit.register(forks.close)
    return forks
