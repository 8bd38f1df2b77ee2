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

from support.waiting import DEADLINE_SECONDS, wait_until

_GATED = """
import sys
import onnxruntime
from inferometer_serving.__main__ import main

compute = onnxruntime.InferenceSession.run


def wait_and_compute(*words):
    open(sys.argv[1]).close()  # blocks until something has opened the pipe to write
    return compute(*words)


onnxruntime.InferenceSession.run = wait_and_compute
sys.exit(main(sys.argv[2:]))
"""


class Gate:
    """Holds up every inference of a server while it is shut, as it is at first."""

    def __init__(self, folder: Path) -> None:
        self.pipe = folder / "gate"
        os.mkfifo(self.pipe)
        self._open: int | None = None

    def open(self) -> None:
        """Let inferences run, those that wait too."""
        self._open = os.open(self.pipe, os.O_RDWR)

    def shut(self) -> None:
        """Hold up inferences from now on."""
        if self._open is not None:
            os.close(self._open)
            self._open = None


class ServerProcess:
    """One server process: the lines it prints on standard output, and its end."""

    def __init__(self, model: Path, *options: str, gate: Gate | None = None) -> None:
        self._log = (model.parent / f"server-{time.monotonic_ns()}.log").open("w+")
        program = ["-m", "inferometer_serving"] if gate is None else ["-c", _GATED, str(gate.pipe)]
        self._process = subprocess.Popen(
            [sys.executable, *program, "--model", str(model), *options],
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
        message: dict[str, Any] = json.loads(self._line())
        if message.get("event") != name:
            raise AssertionError(f"the server printed {message} instead of {name}: {self.errors()}")
        if name == "listening":
            self.http_port, self.grpc_port = message["httpPort"], message["grpcPort"]
        return message

    def last_event(self) -> dict[str, Any]:
        """Return the last line of a server that has ended."""
        stdout = self._process.stdout
        rest = self._pending + (stdout.read() if stdout is not None else b"")
        message: dict[str, Any] = json.loads(rest.splitlines()[-1])
        return message

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    def exit_code(self) -> int:
        """Return the exit code once the process has ended; fail past the deadline."""
        wait_until(
            lambda: self._process.poll() is not None, f"the end of the server of {self.model}"
        )
        return self._process.wait()

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
def started(model: Path, *options: str, gate: Gate | None = None) -> Iterator[ServerProcess]:
    """Run a server that may not be ready yet; it is gone afterwards."""
    process = ServerProcess(model, *options, gate=gate)
    try:
        yield process
    finally:
        process.close()


@contextmanager
def serving(model: Path, *options: str, gate: Gate | None = None) -> Iterator[ServerProcess]:
    """Run a server that is ready, behind a gate that is open then; it is gone afterwards."""
    with started(model, *options, gate=gate) as process:
        if gate is not None:
            gate.open()
        process.event("listening")
        process.event("ready")
        yield process
