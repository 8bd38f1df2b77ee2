"""What does a worker do? It hosts one measuring process, and Locust's worker speaks for it.

gevent is in this process alone: what measures is a child of its own, told by pipes.
"""

import argparse
import logging
import os
import signal
import subprocess
import sys
import time

import gevent  # type: ignore[import-untyped]  # has no types
from locust import events, runners
from locust.env import Environment
from locust.exception import RPCError
from locust.rpc import Message
from locust.runners import WorkerRunner

from inferometer_loadgen.fleet.parent import end_with_parent
from inferometer_loadgen.fleet.pipes import Writer, read_lines
from inferometer_loadgen.fleet.relay import LOST, ORDER, WORD

MASTER_LOST_AFTER_SECONDS = 10.0
_LOOK_SECONDS = 0.5
_LAST_WORDS_SECONDS = 0.2
_GRACE_SECONDS = 2.0


def main(words: list[str]) -> int:
    """Serve a master until it says that the run is over; return the exit code."""
    arguments = _arguments(words)
    if arguments.has_parent:
        end_with_parent()
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(message)s")
    runners.WORKER_LOG_REPORT_INTERVAL = -1  # standard error is enough
    process = _started()
    if arguments.has_parent:
        gevent.spawn(_end_with_input, process)
    runner = Environment(events=events).create_worker_runner(
        arguments.master_host, arguments.master_port
    )
    worker = Worker(runner, process, arguments.index)
    gevent.signal_handler(signal.SIGTERM, worker.terminate)
    return worker.serve()


class Worker:
    """Passes on what its master and its measuring process say."""

    def __init__(
        self, runner: WorkerRunner, process: "subprocess.Popen[bytes]", index: int
    ) -> None:
        self._runner = runner
        self._process = process
        self._index = index
        self._code: int | None = None
        self._writer = Writer(_descriptor(process.stdin), lambda: None)
        runner.register_message(ORDER, self._on_order)

    def serve(self) -> int:
        """Pass on until the end; return the exit code."""
        words = gevent.spawn(self._pass_words)
        while self._code is None:
            words.join(_LOOK_SECONDS)
            if words.dead:
                self._tell_process_ended()
            elif self._is_master_silent():
                self._end(1, "The master of the fleet is lost: this worker ends.")
            elif not len(self._runner.greenlet):  # it was told to quit
                self._end(0, "")
        _stop(self._process)
        return self._code

    def terminate(self) -> None:
        """End since it was asked to."""
        self._tell_lost("it was terminated (SIGTERM)")
        self._end(128 + signal.SIGTERM, "")

    def _is_master_silent(self) -> bool:
        last: float | None = self._runner.last_heartbeat_timestamp
        return last is not None and time.time() - last > MASTER_LOST_AFTER_SECONDS

    def _on_order(self, environment: Environment, msg: Message) -> None:
        del environment
        self._writer.write(msg.data["line"].encode() + b"\n")

    def _pass_words(self) -> None:
        for line in read_lines(_descriptor(self._process.stdout)):
            self._runner.send_message(WORD, {"worker": self._index, "line": line})

    def _tell_process_ended(self) -> None:
        if self._code is not None:
            return
        code = self._process.wait()
        ended = f"by signal {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        self._tell_lost(f"its measuring process ended {ended}")
        self._end(1, f"The measuring process of worker {self._index} ended {ended}.")

    def _tell_lost(self, loss_reason: str) -> None:
        try:
            self._runner.send_message(LOST, {"worker": self._index, "loss_reason": loss_reason})
        except RPCError:
            return
        # The socket sends from a thread of its own; an end of the process would cut it short.
        gevent.sleep(_LAST_WORDS_SECONDS)

    def _end(self, code: int, sentence: str) -> None:
        if self._code is None:
            self._code = code
            if sentence:
                sys.stderr.write(f"{sentence}\n")


def _started() -> "subprocess.Popen[bytes]":
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
    os._exit(1)


def _descriptor(file: object) -> int:
    found: int = os.dup(file.fileno())  # type: ignore[attr-defined]
    return found


def _arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m inferometer_loadgen worker",
        description="One worker of a fleet: it drives a share of what the master at this address "
        "is asked to.",
    )
    parser.add_argument("--master-host", metavar="ADDRESS", required=True)
    parser.add_argument("--master-port", metavar="PORT", type=int, required=True)
    parser.add_argument("--index", metavar="NUMBER", type=int, required=True, help="from 0")
    parser.add_argument(
        "--has-parent", action="store_true", help="end as soon as standard input ends"
    )
    return parser.parse_args(words)
