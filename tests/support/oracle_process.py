"""Starts an oracle in its own process, gives it orders, and reads what it saw."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

_TESTS = Path(__file__).resolve().parents[1]
_ENDS_WITHIN_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Seen:
    """Inferences as the oracle saw them, in the order of receipt; times in nanoseconds."""

    received: Integers
    due: Integers
    """When each reply was to leave, by the law."""
    sent: Integers
    """When it was written; 0: never."""
    samples: Integers
    connection: Integers
    number: Integers
    """The first of the numbers that it sent."""

    def __len__(self) -> int:
        return len(self.received)

    def __getitem__(self, part: slice | Integers) -> "Seen":
        return Seen(
            self.received[part],
            self.due[part],
            self.sent[part],
            self.samples[part],
            self.connection[part],
            self.number[part],
        )

    @property
    def own(self) -> Integers:
        """How long each took at the oracle."""
        return self.sent - self.received


class OracleProcess:
    """A running oracle."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        ports = self._read()
        self.http_port: int = ports["httpPort"]
        self.grpc_port: int = ports["grpcPort"]

    def url(self, protocol: str) -> str:
        """Where to send requests."""
        if protocol == "GRPC":
            return f"grpc://127.0.0.1:{self.grpc_port}"
        return f"http://127.0.0.1:{self.http_port}"

    def obey(
        self,
        delays: Sequence[int] | Integers = (0,),
        *,
        is_queue: bool = False,
        stall: tuple[int, int] | None = None,
    ) -> None:
        """Delay the inferences from now on by so many nanoseconds each, and forget those before.

        In a queue the delays are services of one server. A stall begins with the receipt of the
        inference of its number and lasts so long.
        """
        told = [int(delay) for delay in delays]
        self._ask({"delays": told, "isQueue": is_queue, "stall": stall})

    def report(self) -> Seen:
        """Return what was seen since the last order."""
        told = self._ask({"report": True})
        return Seen(**{name: np.array(values, dtype=np.int64) for name, values in told.items()})

    def _ask(self, order: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "The oracle ended early; what it said last is above."
        told: dict[str, Any] = json.loads(line)
        return told


@contextmanager
def oracle_process() -> Iterator[OracleProcess]:
    """Run an oracle until the end of the block."""
    with subprocess.Popen(
        [sys.executable, "-m", "support.oracle_server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(_TESTS)},
    ) as process:
        try:
            yield OracleProcess(process)
        finally:
            if process.stdin is not None:
                process.stdin.close()
                process.stdin = None
            try:
                process.wait(_ENDS_WITHIN_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
