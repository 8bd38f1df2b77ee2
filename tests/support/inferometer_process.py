"""Runs `inferometer` as a person does, watches its processes, and ends them."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from inferometer_api.results.result import ResultDocument
from support.waiting import DEADLINE_SECONDS, join_thread, wait_until

COMMAND = str(Path(sys.executable).with_name("inferometer"))
END_SECONDS = 60.0
"""How soon a run must have ended after the fact that ends it."""
_MARK = "INFEROMETER_TEST_MARK"

Role = Literal["model fetcher", "server", "load generator", "node agent"]
_MODULES: dict[Role, str] = {
    "model fetcher": "inferometer_fetch",
    "server": "inferometer_serving",
    "load generator": "inferometer_loadgen",
    "node agent": "inferometer_telemetry",
}

SHORT = {"warmUpSeconds": 0, "minDurationSeconds": 1, "minQueries": 1, "maxDurationSeconds": 60}
"""The shortest measurement that the API allows."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended, and what it left."""

    code: int
    stdout: str
    stderr: str
    seconds: float
    """From the call that waited for the end, to the end."""

    @property
    def sentence(self) -> str:
        """Return what follows `inferometer: ` on standard error, to the end."""
        before, mark, sentence = f"\n{self.stderr}".partition("\ninferometer: ")
        if not mark:
            raise AssertionError(f"no sentence of inferometer's: {before}")
        return sentence.strip()


class Inferometer:
    """One `inferometer` process in a folder of its own, marked so that its children are known."""

    def __init__(
        self, folder: Path, *words: str, env: Mapping[str, str] | None = None, terminal: int = -1
    ) -> None:
        self.folder = folder
        self.temporary = folder / "temporary"
        """Where the run and its children keep temporary files."""
        self.temporary.mkdir(exist_ok=True)
        self._mark = f"{os.getpid()}-{time.monotonic_ns()}"
        self._changed = threading.Condition()
        self._written: dict[str, list[str]] = {"stdout": [], "stderr": []}
        self._ended: set[str] = set()
        """Which of the two are closed."""
        self._process = subprocess.Popen(
            [COMMAND, *words],
            cwd=folder,
            env={
                **os.environ,
                "TMPDIR": str(self.temporary),
                "COLUMNS": "100",
                # As on a person's machine: without bytecode every start is twice as slow.
                "PYTHONDONTWRITEBYTECODE": "",
                **(env or {}),
                _MARK: self._mark,
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if terminal < 0 else terminal,
            stderr=subprocess.PIPE if terminal < 0 else terminal,
            text=True,
            # Ctrl-C in a terminal reaches a whole process group: this one.
            process_group=0,
        )
        self._readers = [
            threading.Thread(target=self._read, name=name, args=(name, stream), daemon=True)
            for name, stream in (
                ("stdout", self._process.stdout),
                ("stderr", self._process.stderr),
            )
            if stream is not None
        ]
        for reader in self._readers:
            reader.start()

    @property
    def pid(self) -> int:
        """Return the process's id."""
        return self._process.pid

    def wait_for(self, text: str) -> Self:
        """Wait until standard error has a text; fail where the run ends without it."""
        self._wait_for("stderr", text)
        return self

    def first_line(self) -> str:
        """Wait for the first line of standard output; fail where the run ends without it."""
        self._wait_for("stdout", "\n")
        return self._written["stdout"][0]

    def child(self, role: Role) -> int:
        """Wait for a child and return its process id."""
        found: list[int] = []

        def appears() -> bool:
            found[:] = [pid for pid, words in self._processes() if _module(words) == _MODULES[role]]
            return bool(found)

        wait_until(appears, f"the {role}", poll_seconds=0.01)  # it may be gone soon
        return found[0]

    def left_behind(self) -> list[int]:
        """Return the processes of this run that still are, after a short time to vanish."""
        with suppress(TimeoutError):
            wait_until(lambda: not self._processes(), "their end", (), END_SECONDS)
        return [pid for pid, _ in self._processes()]

    def signal(self, number: signal.Signals) -> Self:
        """Send a signal to the process alone."""
        self._process.send_signal(number)
        return self

    def press_ctrl_c(self) -> Self:
        """Send SIGINT as a terminal does: to the whole foreground process group."""
        os.killpg(self.pid, signal.SIGINT)
        return self

    def ended(self, within_seconds: float = DEADLINE_SECONDS) -> Ended:
        """Wait for the end and return it; fail past the deadline."""
        began = time.monotonic()
        try:
            code = self._process.wait(within_seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(
                f"it did not end within {within_seconds} s:\n{self._text('stderr')}"
            ) from None
        for reader in self._readers:
            join_thread(reader, f"the end of {reader.name}")
        seconds = time.monotonic() - began
        return Ended(code, self._text("stdout"), self._text("stderr"), seconds)

    def close(self) -> None:
        """End whatever still runs."""
        for pid, _ in [(self.pid, ()), *self._processes()]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def _wait_for(self, name: str, text: str) -> None:
        with self._changed:
            self._changed.wait_for(
                lambda: text in self._text(name) or name in self._ended, DEADLINE_SECONDS
            )
        if text not in self._text(name):
            raise AssertionError(f"{text!r} was not said:\n{self._text('stderr')}")

    def _processes(self) -> list[tuple[int, list[str]]]:
        """Return the ids and command lines of this run's living processes but the first."""
        mark = f"{_MARK}={self._mark}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            with suppress(OSError, ValueError):
                pid = int(entry.name)
                if pid != self.pid and mark in (entry / "environ").read_bytes().split(b"\0"):
                    words = (entry / "cmdline").read_bytes().decode().split("\0")
                    found.append((pid, words))
        return found

    def _read(self, name: str, stream: Iterator[str]) -> None:
        for line in stream:
            with self._changed:
                self._written[name].append(line)
                self._changed.notify_all()
        with self._changed:
            self._ended.add(name)
            self._changed.notify_all()

    def _text(self, name: str) -> str:
        return "".join(self._written[name])


@contextmanager
def started(
    folder: Path, *words: str, env: Mapping[str, str] | None = None
) -> Iterator[Inferometer]:
    """Start `inferometer` in a folder; it and its children are gone after the block."""
    process = Inferometer(folder, *words, env=env)
    try:
        yield process
    finally:
        process.close()


def ran(folder: Path, *words: str, env: Mapping[str, str] | None = None) -> Ended:
    """Run `inferometer` in a folder to its end."""
    with started(folder, *words, env=env) as process:
        return process.ended()


def run_file(
    folder: Path,
    *scenarios: Mapping[str, Any],
    spec: Mapping[str, Any] | None = None,
    validity: Mapping[str, Any] | None = None,
    name: str = "run.yaml",
) -> Path:
    """Write a BenchmarkRun (JSON is YAML) whose scenarios are s0, s1, ..., and return its path.

    By default it measures file:model.onnx.
    """
    document = {
        "apiVersion": "inferometer.dev/v1alpha1",
        "kind": "BenchmarkRun",
        "metadata": {"name": "test"},
        "spec": {
            "model": {"uri": "file:model.onnx"},
            "scenarios": [{"name": f"s{i}", **each} for i, each in enumerate(scenarios)],
            "validity": {**SHORT, **(validity or {})},
            **(spec or {}),
        },
    }
    path = folder / name
    path.write_text(json.dumps(document, indent=2))
    return path


def result_in(directory: Path) -> ResultDocument:
    """Read the result that a run left."""
    return ResultDocument.model_validate_json((directory / "result.json").read_bytes())


def _module(words: list[str]) -> str:
    return words[words.index("-m") + 1] if "-m" in words else ""
