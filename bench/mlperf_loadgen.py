"""MLPerf LoadGen against a server, through a minimal system under test.

    python -m bench.mlperf_loadgen '{"port": 8000, "model": "tiny", "input": "x", "shape": [1, 4],
        "scenario": "SingleStream", "queries": 500, "connections": 1}'

drives a server over HTTP and prints LoadGen's summary as JSON. Threads send prepared bytes on
blocking sockets, one connection each, and report each reply to LoadGen; they check only its status.
"""

import json
import os
import queue
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
from bench.processes import ROOT, BenchError, on_core

Scenario = Literal["SingleStream", "Server", "Offline"]
_ENDS_WITHIN_SECONDS = 300
_OFFLINE_LEAST_QPS = 0.01
"""Expected, by which LoadGen reckons how many samples last its least duration: as few as can be."""


@dataclass(frozen=True, slots=True)
class JudgedBy:
    """One run of LoadGen."""

    port: int
    model: str
    input: str
    shape: tuple[int, ...]
    """Of one sample, its first axis 1; FP32."""
    scenario: Scenario
    queries: int
    """Sent, no more and no less; in Offline it counts samples."""
    connections: int = 1
    qps: float = 0.0
    bound_ms: int = 0
    batch_size: int = 1
    """Samples in a request of Offline."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What LoadGen's summary says."""

    valid: bool
    figure: float
    """Seconds at the 90th (SingleStream) or 99th percentile (Server), or samples per second."""
    summary: str
    issued_seconds: tuple[float, ...] = ()
    """When each query was issued, from the first."""


_FIGURES: dict[Scenario, tuple[str, float]] = {
    "SingleStream": (r"^90\.00 percentile latency \(ns\) *: *([\d.]+)", 1e-9),
    "Server": (r"^99\.00 percentile latency \(ns\) *: *([\d.]+)", 1e-9),
    "Offline": (r"^Samples per second *: *([\d.]+)", 1.0),
}


def run_loadgen(parameters: JudgedBy, core: int | None = None) -> Judgement:
    """Run LoadGen in a process of its own. Raises BenchError if it fails."""
    with on_core(core):
        done = subprocess.run(
            [sys.executable, "-m", "bench.mlperf_loadgen", json.dumps(asdict(parameters))],
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
            timeout=_ENDS_WITHIN_SECONDS,
        )
    if done.returncode != 0:
        raise BenchError(f"LoadGen ended with {done.returncode}: {done.stderr[-600:]}")
    output = json.loads(done.stdout.splitlines()[-1])
    return judgement(parameters.scenario, output["summary"], output["issuedNanoseconds"])


def judgement(scenario: Scenario, summary: str, issued_ns: Sequence[int] = ()) -> Judgement:
    """Read LoadGen's summary. Raises BenchError if it has no result."""
    result = re.search(r"^Result is *: *(VALID|INVALID)", summary, re.MULTILINE)
    pattern, unit = _FIGURES[scenario]
    found = re.search(pattern, summary, re.MULTILINE)
    if result is None or found is None:
        raise BenchError(f"LoadGen's summary has no result: {summary[-600:]}")
    since = tuple((each - issued_ns[0]) * 1e-9 for each in issued_ns)
    return Judgement(result[1] == "VALID", float(found[1]) * unit, summary, since)


class _Server:
    """A system under test: so many connections, each with a thread."""

    def __init__(self, parameters: JudgedBy, loadgen: Any) -> None:
        self._parameters = parameters
        self._loadgen = loadgen
        self._waiting: queue.SimpleQueue[list[int] | None] = queue.SimpleQueue()
        self._requests: dict[int, bytes] = {}
        self._faults: list[str] = []
        self.issued_ns: list[int] = []
        self._threads = [
            threading.Thread(target=self._work, daemon=True) for _ in range(parameters.connections)
        ]
        for size in {1, parameters.batch_size, parameters.queries % parameters.batch_size or 1}:
            self._requests[size] = _request(parameters, size)
        for thread in self._threads:
            thread.start()

    def issue(self, samples: Sequence[Any]) -> None:
        """Take a query of LoadGen's."""
        self.issued_ns.append(time.monotonic_ns())
        size = self._parameters.batch_size
        for first in range(0, len(samples), size):
            self._waiting.put([sample.id for sample in samples[first : first + size]])

    def flush(self) -> None:
        """Do nothing: what is taken is sent at once."""

    def close(self) -> list[str]:
        """End the threads; return what went wrong."""
        for _ in self._threads:
            self._waiting.put(None)
        for thread in self._threads:
            thread.join()
        return self._faults

    def _work(self) -> None:
        respond = self._loadgen.QuerySampleResponse
        try:
            with socket.create_connection(("127.0.0.1", self._parameters.port)) as connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                while (ids := self._waiting.get()) is not None:
                    connection.sendall(self._requests[len(ids)])
                    fault = _read_reply(connection)
                    if fault:
                        self._faults.append(fault)
                    self._loadgen.QuerySamplesComplete([respond(each, 0, 0) for each in ids])
        except OSError as error:
            # LoadGen waits for every query for ever: this ends the process in its place.
            sys.stderr.write(f"A connection was lost: {error}\n")
            sys.stderr.flush()
            os._exit(1)


def _request(parameters: JudgedBy, size: int) -> bytes:
    shape = [size, *parameters.shape[1:]]
    tensor = np.random.default_rng(42).random(shape, dtype=np.float32).tobytes()
    tensor_document = {
        "name": parameters.input,
        "shape": shape,
        "datatype": "FP32",
        "parameters": {"binary_data_size": len(tensor)},
    }
    head = {"inputs": [tensor_document], "parameters": {"binary_data_output": True}}
    body = json.dumps(head).encode()
    lines = (
        f"POST /v2/models/{parameters.model}/infer HTTP/1.1",
        f"Host: 127.0.0.1:{parameters.port}",
        "Content-Type: application/octet-stream",
        f"Inference-Header-Content-Length: {len(body)}",
        f"Content-Length: {len(body) + len(tensor)}",
        "",
        "",
    )
    return "\r\n".join(lines).encode() + body + tensor


def _read_reply(connection: socket.socket) -> str:
    """Read one reply to its end; return what is wrong with it."""
    data = b""
    while (end := data.find(b"\r\n\r\n")) < 0:
        piece = connection.recv(65536)
        if not piece:
            raise ConnectionError("The server closed the connection.")
        data += piece
    length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", data[: end + 2])
    left = int(length[1]) - (len(data) - end - 4) if length else 0
    while left > 0:
        piece = connection.recv(left)
        if not piece:
            raise ConnectionError("The server closed the connection within a reply.")
        left -= len(piece)
    return "" if data.startswith(b"HTTP/1.1 200") else data[:100].decode("latin-1")


def _settings(parameters: JudgedBy, loadgen: Any) -> Any:
    settings = loadgen.TestSettings()
    settings.scenario = getattr(loadgen.TestScenario, parameters.scenario)
    settings.mode = loadgen.TestMode.PerformanceOnly
    settings.min_duration_ms = 0
    settings.min_query_count = settings.max_query_count = parameters.queries
    if parameters.scenario == "Server":
        settings.server_target_qps = parameters.qps
        settings.server_target_latency_ns = parameters.bound_ms * 1_000_000
        settings.server_target_latency_percentile = 0.99
    if parameters.scenario == "Offline":
        settings.offline_expected_qps = _OFFLINE_LEAST_QPS
    return settings


def main() -> None:
    """Run LoadGen as the argument says, and print its summary."""
    import mlperf_loadgen as loadgen  # type: ignore[import-not-found]  # noqa: PLC0415 - a peer

    fields = json.loads(sys.argv[1])
    parameters = JudgedBy(**{**fields, "shape": tuple(fields["shape"])})
    server = _Server(parameters, loadgen)
    samples = parameters.queries if parameters.scenario == "Offline" else 64
    system = loadgen.ConstructSUT(server.issue, server.flush)
    library = loadgen.ConstructQSL(samples, samples, lambda _: None, lambda _: None)
    with TemporaryDirectory() as folder:
        logs = loadgen.LogSettings()
        logs.log_output.outdir = folder
        logs.log_output.copy_summary_to_stdout = False
        logs.enable_trace = False
        loadgen.StartTestWithLogSettings(system, library, _settings(parameters, loadgen), logs)
        faults = server.close()
        summary = (Path(folder) / "mlperf_log_summary.txt").read_text(encoding="utf-8")
    loadgen.DestroyQSL(library)
    loadgen.DestroySUT(system)
    if faults:
        raise SystemExit(f"{len(faults)} replies were no success; the first: {faults[0]}")
    print(json.dumps({"summary": summary, "issuedNanoseconds": server.issued_ns}))


if __name__ == "__main__":
    main()
