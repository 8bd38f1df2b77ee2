"""What does Locust's master do for a fleet? It passes on what session and workers say.

A process of its own: gevent patches the standard library, and the session measures by asyncio.
Standard input and output lead to the session. Locust counts nothing: it keeps the workers'
connections and heartbeats, and its web page shows what the session tells.
"""

import argparse
import logging
import os
import signal
import sys
from typing import assert_never

import gevent  # type: ignore[import-untyped]  # has no types
from locust import events
from locust.env import Environment
from locust.rpc import Message
from locust.runners import STATE_MISSING, MasterRunner

from inferometer_loadgen.fleet.parent import end_with_parent
from inferometer_loadgen.fleet.pipes import Writer, read_lines
from inferometer_loadgen.fleet.relay import (
    FROM_MASTER,
    LOST,
    ORDER,
    TO_MASTER,
    WORD,
    Bound,
    FromMaster,
    Lost,
    Quit,
    Send,
    Show,
)
from inferometer_loadgen.fleet.web import WebPage

_LOOK_SECONDS = 0.5
_LAST_WORDS_SECONDS = 0.05


def main() -> int:
    """Pass on until the session says that the run is over, or is gone."""
    end_with_parent()
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(message)s")
    arguments = _arguments()
    del sys.argv[1:]  # Locust's web page would take them for its own
    told = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    environment = Environment(events=events)
    runner = environment.create_master_runner(arguments.bind_host, arguments.port)
    master = Master(runner, Writer(told, lambda: os._exit(1)))
    signal.signal(signal.SIGTERM, lambda *_: os._exit(128 + signal.SIGTERM))
    page = None
    if arguments.web_port is not None:
        page = WebPage(environment, arguments.bind_host, arguments.web_port)
    master.tell(Bound(runner.server.port, None if page is None else page.port))
    for line in read_lines(0):
        if not master.heed(line, page):
            break
    # Not Runner.quit, which waits for statistics that nobody needs.
    runner.send_message("quit")
    gevent.sleep(_LAST_WORDS_SECONDS)
    return 0


class Master:
    """Passes on, and tells when a worker is missing."""

    def __init__(self, runner: MasterRunner, writer: Writer) -> None:
        self._runner = runner
        self._writer = writer
        self._names: dict[int, str] = {}
        self._lost: set[int] = set()
        runner.register_message(WORD, self._on_word)
        runner.register_message(LOST, self._on_lost)
        gevent.spawn(self._look)

    def tell(self, words: FromMaster) -> None:
        """Tell the session."""
        self._writer.write(FROM_MASTER.dump_json(words) + b"\n")

    def heed(self, line: bytes, page: WebPage | None) -> bool:
        """Do what the session says; return whether there is more to come."""
        order = TO_MASTER.validate_json(line)
        match order:
            case Send():
                for worker in order.workers:
                    name = self._names.get(worker)
                    if name is not None and worker not in self._lost:
                        self._runner.send_message(ORDER, {"line": order.line}, name)
            case Show():
                if page is not None:
                    page.show(order)
            case Quit():
                return False
            case _:
                assert_never(order)
        return True

    def _on_word(self, environment: Environment, msg: Message) -> None:
        del environment
        worker: int = msg.data["worker"]
        self._names[worker] = msg.node_id
        self._writer.write(b"%d %s" % (worker, msg.data["line"]))

    def _on_lost(self, environment: Environment, msg: Message) -> None:
        del environment
        self._tell_lost(msg.data["worker"], msg.data["loss_reason"])

    def _look(self) -> None:
        """Tell of workers that have sent no heartbeat for four seconds."""
        while True:
            gevent.sleep(_LOOK_SECONDS)
            for worker, name in list(self._names.items()):
                client = self._runner.clients.get(name)
                if client is None or client.state == STATE_MISSING:
                    self._tell_lost(worker, "Locust's worker has sent no heartbeat for 4 s")

    def _tell_lost(self, worker: int, loss_reason: str) -> None:
        if worker not in self._lost:
            self._lost.add(worker)
            self.tell(Lost(worker, loss_reason))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m inferometer_loadgen.fleet.master")
    parser.add_argument("--bind-host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--web-port", type=int)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
