"""Starts an oracle in its own process, gives it scripts, and reads what it saw."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from support.oracle_script import Script
from support.oracle_server import Listen

Integers = NDArray[np.int64]

_TESTS = Path(__file__).resolve().parents[1]
_ENDS_WITHIN_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Seen:
    """Inferences as the oracle saw them, in the order of receipt; times in nanoseconds."""

    received: Integers
    due: Integers
    """When each reply was to leave, by the script."""
    sent: Integers
    """When it was written; 0: never."""
    samples: Integers
    connection: Integers
    number: Integers
    """The first of the numbers that it sent."""
    fault: Integers
    """What was wrong with its reply, by its place in FAULTS."""

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
            self.fault[part],
        )

    @property
    def well(self) -> "Seen":
        """Those that were answered as they should be."""
        return self[np.flatnonzero((self.sent > 0) & (self.fault == 0))]

    @property
    def own(self) -> Integers:
        """How long each took at the oracle."""
        return self.sent - self.received


class OracleProcess:
    """A running oracle; after its end it still knows what it saw."""

    def __init__(self, process: "subprocess.Popen[bytes]", listen: Listen) -> None:
        self._process = process
        self._listen = listen
        self._lock = threading.Lock()
        self._last: dict[str, dict[str, Any]] = {}
        ports = self._read()
        self.http_port: int = ports["httpPort"]
        self.grpc_port: int = ports["grpcPort"]

    def url(self, protocol: str) -> str:
        """Where to send requests."""
        port = self.grpc_port if protocol == "GRPC" else self.http_port
        secure = "s" if self._listen.tls_folder else ""
        return f"{protocol.lower()}{secure}://{self._listen.host}:{port}"

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
        self.follow(Script(delays=delays, is_queue=is_queue, stall=stall))

    def follow(self, script: Script) -> None:
        """Follow a script from now on, and forget the inferences before."""
        self._order({"script": script.document()})

    def report(self) -> Seen:
        """Return what was seen since the last script."""
        columns = self._order({"report": True})
        return Seen(**{name: np.array(each, dtype=np.int64) for name, each in columns.items()})

    @property
    def received(self) -> int:
        """How many inferences came since the last script."""
        return int(self._order({"counts": True})["received"])

    @property
    def answered(self) -> int:
        """How many of them were answered as they should be."""
        return int(self._order({"counts": True})["answered"])

    @property
    def headers(self) -> list[dict[str, str]]:
        """Of every call since the last script, their names in lower case."""
        found: list[dict[str, str]] = self._order({"headers": True})["headers"]
        return found

    def die(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.wait()

    def end(self) -> None:
        """End the process, after a last look at what it saw."""
        if self._process.poll() is None:
            for order in ("report", "counts", "headers"):
                self._last[order] = self._order({order: True})
        if self._process.stdin is not None:
            self._process.stdin.close()
            self._process.stdin = None
        self._process.wait(_ENDS_WITHIN_SECONDS)

    def _order(self, order: dict[str, Any]) -> dict[str, Any]:
        (kind,) = order
        with self._lock:
            if kind in self._last:
                return self._last[kind]
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            self._process.stdin.flush()
            return self._read()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "The oracle ended early; its last output is above."
        found: dict[str, Any] = json.loads(line)
        return found


@contextmanager
def oracle_process(
    script: Script | None = None, listen: Listen | None = None
) -> Iterator[OracleProcess]:
    """Run an oracle until the end of the block."""
    listen = listen or Listen()
    with subprocess.Popen(
        [sys.executable, "-m", "support.oracle_server", json.dumps(asdict(listen))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(_TESTS)},
    ) as process:
        try:
            oracle = OracleProcess(process, listen)
            oracle.follow(script or Script())
            yield oracle
            oracle.end()
        finally:
            process.kill()
