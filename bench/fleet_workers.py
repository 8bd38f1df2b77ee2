"""Simulated fleet workers that report to a real master without sending load.

One process plays many workers by Locust's own protocol: they say hello, send a heartbeat and what
a busy worker's second comes to, all of them at the same moment, and obey orders at once.

    python -m bench.fleet_workers PORT COUNT
"""

import json
import sys
import time

import msgpack  # type: ignore[import-untyped]  # has no types
import zmq
from numpy.random import default_rng

from inferometer_loadgen.fleet.clock_sync import own_clock
from inferometer_loadgen.fleet.curve_keys import secure_client
from inferometer_loadgen.fleet.deltas import DeltaReader
from inferometer_loadgen.fleet.messages import (
    ORDERS,
    WORKER_MESSAGES,
    ClockIdentity,
    ClockReading,
    Close,
    Connect,
    Connected,
    ConnectionsClosed,
    CountDelta,
    Finish,
    Hello,
    Prepare,
    ReadClock,
    Ready,
    SetUp,
    SetUpDone,
    Start,
    WorkerMessage,
    WorkerProgress,
)
from inferometer_loadgen.record.recorder import Recorder
from inferometer_loadgen.schedule.steps import End

TOKEN = "simulated"  # noqa: S105 - of a fleet on loopback
"""The fleet's."""
QUERIES_A_SECOND = 500
"""Of each worker."""
_SECOND_NS = 1_000_000_000
_LOCUST_VERSION = -1
"""What Locust's master takes without a look at the version."""
_MEDIAN_NS = 5_000_000
_SPREAD = 0.5


def main() -> None:
    """Play workers until the master says quit."""
    port, count = map(int, sys.argv[1:])
    context = zmq.Context()
    context.set(zmq.MAX_SOCKETS, count + 8)
    workers = [_Worker(context, port, index) for index in range(count)]
    poller = zmq.Poller()
    for worker in workers:
        poller.register(worker.socket, zmq.POLLIN)
    of_socket = {worker.socket: worker for worker in workers}
    second = time.monotonic()
    while any(worker.is_there for worker in workers):
        for socket, _ in poller.poll(max(0, int(1000 * (second - time.monotonic())))):
            of_socket[socket].handle_message()
        if time.monotonic() >= second:
            second += 1
            for worker in workers:
                worker.send_second()


class _Worker:
    def __init__(self, context: "zmq.Context[zmq.Socket[bytes]]", port: int, index: int) -> None:
        self.socket = context.socket(zmq.DEALER)
        self._name = f"worker-{index}"
        self._index = index
        self.is_there = True
        self._is_measuring = False
        self._begun_ns = 0
        self.socket.setsockopt(zmq.IDENTITY, self._name.encode())
        self.socket.setsockopt(zmq.LINGER, 0)
        secure_client(self.socket, TOKEN)
        self.socket.connect(f"tcp://127.0.0.1:{port}")
        self._send("client_ready", _LOCUST_VERSION)
        self._send_message(Hello(own_clock() if index else ClockIdentity("", ""), ""))

    def handle_message(self) -> None:
        """Take one message of the master."""
        kind, data, _ = msgpack.loads(self.socket.recv(), strict_map_key=False)
        if kind == "quit":
            self.is_there = False
        elif kind == "inferometer-order":
            self._obey(data["line"])

    def _obey(self, line: str) -> None:
        match ORDERS.validate_json(line):
            case SetUp():
                self._send_message(SetUpDone())
            case Prepare():
                self._send_message(Ready(open_loop=True, connections=1))
            case Connect():
                self._send_message(Connected())
            case ReadClock(number=number):
                self._send_message(ClockReading(number, time.monotonic_ns()))
            case Start(at_ns=at_ns):
                self._is_measuring = True
                self._begun_ns = max(at_ns, time.monotonic_ns())
                self._send_message(_progress("window", self._begun_ns, CountDelta()))
            case Finish():
                self._is_measuring = False
                self._send_message(
                    _progress("ended", self._begun_ns, CountDelta(), End.INTERRUPTED)
                )
            case Close():
                self._send_message(ConnectionsClosed())
            case _:
                raise RuntimeError(f"No order that is known here: {line}")

    def send_second(self) -> None:
        """Send a heartbeat, and what a second comes to."""
        state = {"state": "ready", "current_cpu_usage": 0, "current_memory_usage": 0}
        self._send("heartbeat", state)
        if self._is_measuring:
            self._send_line(_SECOND % self._begun_ns)

    def _send_message(self, word: WorkerMessage) -> None:
        self._send_line(WORKER_MESSAGES.dump_json(word))

    def _send_line(self, line: bytes) -> None:
        self._send("inferometer-message", {"worker": self._index, "line": line + b"\n"})

    def _send(self, kind: str, data: object) -> None:
        self.socket.send(msgpack.dumps((kind, data, self._name)))


def _progress(
    stage: str, begun_ns: int, gained: CountDelta, end: End | None = None
) -> WorkerProgress:
    return WorkerProgress(
        stage=stage,  # type: ignore[arg-type]  # one of its words
        gained=gained,
        begin_ns=begun_ns,
        window_ns=begun_ns,
        duration_ns=0,
        silences=[],
        last_reply_ns=begun_ns,
        outstanding=3,
        overdue=0,
        reconnects=0,
        fraction=0.5,
        draining=False,
        cpu_seconds=1.0,
        memory_bytes=80 * 2**20,
        end=end,
    )


def a_second() -> bytes:
    """Return a worker's report of one second with so many queries; %d stands for its start."""
    recorder = Recorder()
    gains = DeltaReader(recorder)
    random = default_rng(1)
    times = random.lognormal(0, _SPREAD, QUERIES_A_SECOND) * _MEDIAN_NS
    for nanoseconds in times.astype(int).tolist():
        recorder.latencies.append(nanoseconds)
        recorder.service_times.append(nanoseconds)
        recorder.lags.append(nanoseconds // 100)
    recorder.end_second()
    word = json.loads(WORKER_MESSAGES.dump_json(_progress("measuring", 0, gains.take())))
    text = json.dumps({**word, "begin_ns": "BEGIN"}, separators=(",", ":"))
    return text.replace("%", "%%").replace('"BEGIN"', "%d").encode()


_SECOND = a_second()

if __name__ == "__main__":
    main()
