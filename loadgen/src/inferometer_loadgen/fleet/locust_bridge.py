"""Locust's master and worker processes: they carry messages and watch over each other.

Locust sends no load and counts nothing. It keeps the connections and heartbeats between the session
and the measuring processes, and its web page shows the seconds that the session has merged. Only
these two processes import Locust, because it patches the standard library for gevent.
"""

import argparse
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import assert_never

import gevent  # type: ignore[import-untyped]  # has no types
from gevent import monkey
from gevent.fileobject import FileObjectPosix  # type: ignore[import-untyped]  # has no types
from gevent.queue import Queue  # type: ignore[import-untyped]  # has no types
from locust import events, runners
from locust.env import Environment
from locust.exception import RPCError
from locust.rpc import Message
from locust.runners import STATE_MISSING, MasterRunner, WorkerRunner

from inferometer_api.plan.launch import FLEET_TOKEN_VARIABLE
from inferometer_loadgen.fleet.bridge_protocol import (
    FROM_MASTER,
    LOST_TYPE,
    MESSAGE_TYPE,
    ORDER_TYPE,
    TO_MASTER,
    EndFleet,
    FromMaster,
    MasterReady,
    SendOrder,
    ShowSecond,
    WorkerLost,
)
from inferometer_loadgen.fleet.locust_web import LocustWebPage
from inferometer_loadgen.fleet.parent_process import end_with_parent
from inferometer_loadgen.fleet.secure_sockets import secure_locust

MASTER_LOST_AFTER_SECONDS = 10.0
_CHECK_SECONDS = 0.5
_MASTER_LAST_WORDS_SECONDS = 0.05
_WORKER_LAST_WORDS_SECONDS = 0.2
_GRACE_SECONDS = 2.0


class LineWriter:
    """Writes lines in turn without blocking; `on_broken` is called if the reader is gone."""

    def __init__(self, descriptor: int, on_broken: Callable[[], None]) -> None:
        self._file = FileObjectPosix(descriptor, "wb", 0)
        self._lines: Queue[bytes] = Queue()
        self._on_broken = on_broken
        gevent.spawn(self._write)

    def write(self, line: bytes) -> None:
        """Queue a line, which includes its line end."""
        self._lines.put(line)

    def _write(self) -> None:
        try:
            for line in self._lines:
                self._file.write(line)
        except OSError as error:
            sys.stderr.write(f"The reader of this process is gone: {error}.\n")
            self._on_broken()


def read_lines(descriptor: int) -> Iterator[bytes]:
    """Yield each line until the end, without blocking other greenlets."""
    with FileObjectPosix(descriptor, "rb") as file:
        yield from iter(file.readline, b"")


# -- master ----------------------------------------------------------------------------------------


def run_master() -> int:
    """Forward messages until the session ends the run or is gone; return the exit code."""
    end_with_parent()
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(message)s")
    arguments = _master_arguments()
    del sys.argv[1:]  # Locust's web page would parse them as its own
    output = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    secure_locust(os.environ.pop(FLEET_TOKEN_VARIABLE, ""))
    environment = Environment(events=events)
    runner = environment.create_master_runner(arguments.bind_host, arguments.port)
    master = LocustMaster(runner, LineWriter(output, lambda: os._exit(1)))
    signal.signal(signal.SIGTERM, lambda *_: os._exit(128 + signal.SIGTERM))
    page = None
    if arguments.web_port is not None:
        page = LocustWebPage(environment, arguments.bind_host, arguments.web_port)
    master.report(MasterReady(runner.server.port, None if page is None else page.port))
    for line in read_lines(0):
        if not master.handle(line, page):
            break
    # Runner.quit would wait for statistics that the fleet does not use.
    runner.send_message("quit")
    gevent.sleep(_MASTER_LAST_WORDS_SECONDS)
    return 0


class LocustMaster:
    """Forwards orders and messages, and reports workers without a heartbeat."""

    def __init__(self, runner: MasterRunner, writer: LineWriter) -> None:
        self._runner = runner
        self._writer = writer
        self._names: dict[int, str] = {}
        self._lost: set[int] = set()
        self._handle_by_locust = runner.handle_message
        runner.handle_message = self._handle_message  # type: ignore[method-assign]  # it has no hook
        runner.register_message(MESSAGE_TYPE, self._on_message)
        runner.register_message(LOST_TYPE, self._on_lost)
        gevent.spawn(self._check_heartbeats)

    def report(self, message: FromMaster) -> None:
        """Send a message of the master to the session."""
        self._writer.write(FROM_MASTER.dump_json(message) + b"\n")

    def handle(self, line: bytes, page: LocustWebPage | None) -> bool:
        """Carry out a message of the session; return whether the run continues."""
        message = TO_MASTER.validate_json(line)
        match message:
            case SendOrder():
                for worker in message.workers:
                    name = self._names.get(worker)
                    if name is not None and worker not in self._lost:
                        self._runner.send_message(ORDER_TYPE, {"line": message.line}, name)
            case ShowSecond():
                if page is not None:
                    page.show(message)
            case EndFleet():
                return False
            case _:
                assert_never(message)
        return True

    def _on_message(self, environment: Environment, msg: Message) -> None:
        del environment
        worker, line = msg.data["worker"], msg.data["line"]
        if self._is_known(worker, msg.node_id) and line.find(b"\n") == len(line) - 1:
            self._writer.write(b"%d %s" % (worker, line))

    def _on_lost(self, environment: Environment, msg: Message) -> None:
        del environment
        worker = msg.data["worker"]
        if self._is_known(worker, msg.node_id):
            self._report_lost(worker, msg.data["loss_reason"])

    def _handle_message(self, client_id: str, msg: Message) -> None:
        """Let Locust handle a message; one that it cannot handle ends nothing."""
        try:
            self._handle_by_locust(client_id, msg)
        except Exception as error:  # noqa: BLE001 - Locust would receive no more
            sys.stderr.write(f"A message of type {msg.type!r} was ignored: {error!r}.\n")

    def _is_known(self, worker: int, name: str) -> bool:
        """Return whether a worker has this name: that of the first that claimed its number."""
        known = self._names.setdefault(worker, name)
        if known != name:
            sys.stderr.write(f"{name} claims to be worker {worker}, which is {known}: ignored.\n")
        return known == name

    def _check_heartbeats(self) -> None:
        """Report workers without a heartbeat for four seconds."""
        while True:
            gevent.sleep(_CHECK_SECONDS)
            for worker, name in list(self._names.items()):
                client = self._runner.clients.get(name)
                if client is None or client.state == STATE_MISSING:
                    self._report_lost(worker, "Locust's worker has sent no heartbeat for 4 s")

    def _report_lost(self, worker: int, loss_reason: str) -> None:
        if worker not in self._lost:
            self._lost.add(worker)
            self.report(WorkerLost(worker, loss_reason))


def _master_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m inferometer_loadgen.fleet.locust_bridge")
    parser.add_argument("--bind-host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--web-port", type=int)
    return parser.parse_args()


# -- worker ----------------------------------------------------------------------------------------


def run_worker(words: list[str]) -> int:
    """Serve a master until the run is over, with these arguments; return the exit code."""
    arguments = _worker_arguments(words)
    if arguments.has_parent:
        end_with_parent()
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(message)s")
    runners.WORKER_LOG_REPORT_INTERVAL = -1  # standard error is enough
    secure_locust(os.environ.pop(FLEET_TOKEN_VARIABLE, ""))
    process = _start_measuring()
    if arguments.has_parent:
        gevent.spawn(_end_with_input, process)
    runner = Environment(events=events).create_worker_runner(
        arguments.master_host, arguments.master_port
    )
    worker = LocustWorker(runner, process, arguments.index)
    gevent.signal_handler(signal.SIGTERM, worker.terminate)
    return worker.serve()


class LocustWorker:
    """Hosts one measuring process, and forwards its messages and the master's orders.

    gevent is in this process alone: the measuring process is a child, connected by pipes.
    """

    def __init__(
        self, runner: WorkerRunner, process: "subprocess.Popen[bytes]", index: int
    ) -> None:
        self._runner = runner
        self._process = process
        self._index = index
        self._code: int | None = None
        self._writer = LineWriter(_duplicate(process.stdin), lambda: None)
        runner.register_message(ORDER_TYPE, self._on_order)

    def serve(self) -> int:
        """Forward until the end; return the exit code."""
        forwarding = gevent.spawn(self._forward_messages)
        while self._code is None:
            forwarding.join(_CHECK_SECONDS)
            if forwarding.dead:
                self._report_process_ended()
            elif self._is_master_silent():
                self._end(1, "The master of the fleet is lost: this worker ends.")
            elif not len(self._runner.greenlet):  # the master sent "quit"
                self._end(0, "")
        _stop(self._process)
        return self._code

    def terminate(self) -> None:
        """End because of SIGTERM."""
        self._report_lost("it was terminated (SIGTERM)")
        self._end(128 + signal.SIGTERM, "")

    def _is_master_silent(self) -> bool:
        last: float | None = self._runner.last_heartbeat_timestamp
        return last is not None and time.time() - last > MASTER_LOST_AFTER_SECONDS

    def _on_order(self, environment: Environment, msg: Message) -> None:
        del environment
        self._writer.write(msg.data["line"].encode() + b"\n")

    def _forward_messages(self) -> None:
        for line in read_lines(_duplicate(self._process.stdout)):
            self._runner.send_message(MESSAGE_TYPE, {"worker": self._index, "line": line})

    def _report_process_ended(self) -> None:
        if self._code is not None:
            return
        code = self._process.wait()
        ended = f"by signal {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        self._report_lost(f"its measuring process ended {ended}")
        self._end(1, f"The measuring process of worker {self._index} ended {ended}.")

    def _report_lost(self, loss_reason: str) -> None:
        try:
            self._runner.send_message(
                LOST_TYPE, {"worker": self._index, "loss_reason": loss_reason}
            )
        except RPCError:
            return
        # The socket sends from a thread of its own, which the end of the process would cut short.
        gevent.sleep(_WORKER_LAST_WORDS_SECONDS)

    def _end(self, code: int, sentence: str) -> None:
        if self._code is None:
            self._code = code
            if sentence:
                sys.stderr.write(f"{sentence}\n")


def _start_measuring() -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        (sys.executable, "-m", "inferometer_loadgen.fleet.measuring"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def _stop(process: "subprocess.Popen[bytes]") -> None:
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _end_with_input(process: "subprocess.Popen[bytes]") -> None:
    for _ in read_lines(0):
        pass
    process.kill()
    # No other greenlet may run meanwhile: it would report a process that was lost.
    with suppress(ChildProcessError):
        monkey.get_original("os", "waitpid")(process.pid, 0)
    os._exit(1)


def _duplicate(file: object) -> int:
    descriptor: int = os.dup(file.fileno())  # type: ignore[attr-defined]
    return descriptor


def _worker_arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m inferometer_loadgen worker",
        description="One worker of a fleet: drives its share of the load that the master at this "
        "address requests.",
    )
    parser.add_argument("--master-host", metavar="ADDRESS", required=True)
    parser.add_argument("--master-port", metavar="PORT", type=int, required=True)
    parser.add_argument("--index", metavar="NUMBER", type=int, required=True, help="from 0")
    parser.add_argument(
        "--has-parent", action="store_true", help="end as soon as standard input ends"
    )
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(run_master())
