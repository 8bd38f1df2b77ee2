"""Starts a real server on loopback, queries it, and ends it."""

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

DEADLINE_SECONDS = 60.0
"""Far above what anything takes: a test that reaches it has failed."""


class ServerProcess:
    """One server process: the lines it prints on standard output, and its end."""

    def __init__(self, model: Path, *options: str) -> None:
        self._log = (model.parent / f"server-{time.monotonic_ns()}.log").open("w+")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "inferometer_serving", "--model", str(model), *options],
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        self.model = model
        self._pending = b""
        self.http_port = 0
        self.grpc_port = 0

    @property
    def http_url(self) -> str:
        """Return where tritonclient finds it over HTTP."""
        return f"127.0.0.1:{self.http_port}"

    @property
    def grpc_url(self) -> str:
        """Return where tritonclient finds it over gRPC."""
        return f"127.0.0.1:{self.grpc_port}"

    @property
    def pid(self) -> int:
        """Return the process's id."""
        return self._process.pid

    def event(self, name: str) -> dict[str, Any]:
        """Return the next event, which must be called `name`; fail past the deadline."""
        told: dict[str, Any] = json.loads(self._line())
        if told.get("event") != name:
            raise AssertionError(f"the server printed {told} instead of {name}: {self.errors()}")
        if name == "listening":
            self.http_port, self.grpc_port = told["httpPort"], told["grpcPort"]
        return told

    def last_event(self) -> dict[str, Any]:
        """Return the last line of a server that has ended."""
        stdout = self._process.stdout
        rest = self._pending + (stdout.read() if stdout is not None else b"")
        told: dict[str, Any] = json.loads(rest.splitlines()[-1])
        return told

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    def exit_code(self) -> int:
        """Return the exit code once the process has ended; fail past the deadline."""
        return self._process.wait(DEADLINE_SECONDS)

    def errors(self) -> str:
        """Return what the server wrote to standard error so far."""
        return Path(self._log.name).read_text()

    def close(self) -> None:
        """End the process if it still runs."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._log.close()

    def _line(self) -> bytes:
        stdout = self._process.stdout
        if stdout is None:
            raise AssertionError("the server has no standard output")
        deadline = time.monotonic() + DEADLINE_SECONDS
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            while b"\n" not in self._pending:
                if not selector.select(deadline - time.monotonic()):
                    raise AssertionError(f"the server printed nothing in time: {self.errors()}")
                piece = os.read(stdout.fileno(), 65536)
                if not piece:
                    raise AssertionError(f"the server ended early: {self.errors()}")
                self._pending += piece
        line, _, self._pending = self._pending.partition(b"\n")
        return line


@contextmanager
def started(model: Path, *options: str) -> Iterator[ServerProcess]:
    """Run a server that may not be ready yet; it is gone afterwards."""
    process = ServerProcess(model, *options)
    try:
        yield process
    finally:
        process.close()


@contextmanager
def serving(model: Path, *options: str) -> Iterator[ServerProcess]:
    """Run a server that is ready; it is gone afterwards."""
    with started(model, *options) as process:
        process.event("listening")
        process.event("ready")
        yield process
