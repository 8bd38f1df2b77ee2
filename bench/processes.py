"""Child processes on a core of their own: start, resource usage, end."""

import ctypes
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[1]
READY_SECONDS = 60.0
_STOP_SECONDS = 10.0
_POLL_SECONDS = 0.05


class BenchError(RuntimeError):
    """A measurement could not be taken; the message is a sentence."""


def usable_cores() -> list[int]:
    """Return the cores this process may run on, ascending; none if they cannot be chosen."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


@contextmanager
def on_core(core: int | None) -> Iterator[None]:
    """Let this thread, and the processes it starts meanwhile, run on one core only."""
    if core is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class Child:
    """A process that serves, computes or sends for a measurement."""

    def __init__(self, name: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self.name = name
        self._process = process
        self._log = log

    def read(self) -> dict[str, Any]:
        """Return the next line of JSON on its standard output. Raises BenchError at its end."""
        stdout = self._process.stdout
        line = stdout.readline() if stdout is not None else b""
        if not line:
            raise BenchError(f"{self.name} ended early: {self.last_words()}")
        found: dict[str, Any] = json.loads(line)
        return found

    def ask(self, **fields: object) -> dict[str, Any]:
        """Send a line of JSON and return the line that answers it."""
        stdin = self._process.stdin
        if stdin is None:
            raise BenchError(f"{self.name} takes no questions.")
        stdin.write(json.dumps(fields).encode() + b"\n")
        stdin.flush()
        return self.read()

    def cpu_seconds(self) -> float:
        """Return the user and system seconds that it and its children used so far."""
        children = psutil.Process(self._process.pid).children(recursive=True)
        return sum(map(cpu_seconds_of, (self._process.pid, *(each.pid for each in children))))

    def resident_bytes(self) -> int:
        """Return the memory of its own that it has now."""
        memory: int = psutil.Process(self._process.pid).memory_info().rss
        return memory

    def is_running(self) -> bool:
        """Return whether it has not ended."""
        return self._process.poll() is None

    def last_words(self) -> str:
        """Return the end of what it wrote to standard error."""
        lines = self._log.read_text(errors="replace").splitlines()
        spoken = [line for line in lines if line and line[0] not in "+|"]  # Triton draws tables
        return "\n".join(spoken)[-1500:] or "it said nothing."

    def stop(self) -> None:
        """End it: gently first."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextmanager
def start_child(
    name: str,
    command: Sequence[str],
    *,
    core: int | None,
    folder: Path,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Child]:
    """Run a process on a core; it is gone afterwards."""
    log = folder / f"{name.replace(' ', '-')}-{time.monotonic_ns()}.log"
    with log.open("wb") as errors, on_core(core):
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
        )
    child = Child(name, process, log)
    try:
        yield child
    finally:
        child.stop()


def cpu_seconds_of(process_id: int) -> float:
    """Return the CPU time of all threads a process has and had, to the nanosecond.

    psutil knows it in steps of 10 ms only, which is an inference's worth.
    """
    clock = ctypes.c_int()
    fault: int = ctypes.CDLL(None).clock_getcpuclockid(process_id, ctypes.byref(clock))
    if fault:
        raise BenchError(f"The CPU clock of process {process_id} cannot be read ({fault}).")
    return time.clock_gettime(clock.value)


def wait_for_http(child: Child, port: int, path: str) -> None:
    """Return once the server answers 200 on a path. Raises BenchError past the deadline."""
    _wait(child, lambda: _answers(port, path))


def _wait(child: Child, is_ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while not is_ready():
        if not child.is_running() or time.monotonic() > deadline:
            raise BenchError(f"{child.name} was never ready: {child.last_words()}")
        time.sleep(_POLL_SECONDS)


def _answers(port: int, path: str) -> bool:
    connection = HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()
