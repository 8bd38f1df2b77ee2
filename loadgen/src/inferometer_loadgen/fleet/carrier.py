"""Transport between a session and the workers of its fleet: the seam that hides Locust."""

import asyncio
import contextlib
import os
import secrets
import sys
from collections.abc import Sequence
from typing import Protocol

from pydantic import ValidationError

from inferometer_api.plan.launch import FLEET_TOKEN_VARIABLE, worker_command
from inferometer_api.plan.load_plan import PlannedFleet
from inferometer_loadgen.fleet.answers import WorkerLostError
from inferometer_loadgen.fleet.bridge_protocol import (
    FROM_MASTER,
    TO_MASTER,
    EndFleet,
    MasterReady,
    SendOrder,
    ShowSecond,
    ToMaster,
    WorkerLost,
)
from inferometer_loadgen.fleet.messages import (
    LONGEST_LINE_BYTES,
    ORDERS,
    WORKER_MESSAGES,
    Order,
    WorkerMessage,
)

_GRACE_SECONDS = 1.0
_LAST_WORDS_SECONDS = 0.3
"""Wait for a worker's own report after its process ended; it comes through the master."""
_EVERY_ADDRESS = "*"
_LOOPBACK = "127.0.0.1"


class WorkerListener(Protocol):
    """Receiver of what happens to workers."""

    def on_message(self, worker: int, message: WorkerMessage) -> None:
        """Take a message of a worker."""

    def on_lost(self, worker: int, loss_reason: str) -> None:
        """Note that a worker is lost, and why."""


class Carrier(Protocol):
    """Carries orders to the workers of a fleet and their messages back."""

    def send(self, order: Order, workers: Sequence[int]) -> None:
        """Send an order to these workers."""

    async def receive(self, listener: WorkerListener) -> None:
        """Pass every message and every loss to the listener until the carrier ends."""

    async def close(self) -> None:
        """End all workers that it started, and itself."""


class LocustCarrier:
    """Carrier over Locust's master and workers, which run in processes of their own.

    The processes patch the standard library for gevent; the session, which measures with asyncio,
    never imports Locust.
    """

    def __init__(self, planned: PlannedFleet, workers: Sequence[int]) -> None:
        self._planned = planned
        self._workers = workers
        self._token = planned.token or secrets.token_hex(16)
        self.port = 0
        """Port of the master, once it is open."""
        self.web_port: int | None = None
        """Port of Locust's web page; None if it is disabled."""
        self._master: asyncio.subprocess.Process | None = None
        self._processes: list[asyncio.subprocess.Process] = []
        self._early_lines: list[bytes] = []
        self._watches: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Start the master, and the workers if the plan says so.

        Raises WorkerLostError if the master cannot listen.
        """
        planned = self._planned
        web = () if planned.web_port is None else ("--web-port", str(planned.web_port))
        self._master = await _start_process(
            sys.executable,
            *("-m", "inferometer_loadgen.fleet.locust_bridge"),
            *("--bind-host", bind_host(planned)),
            *("--port", str(planned.port)),
            *web,
            token=self._token,
            has_output=True,
        )
        ready = await self._wait_for_master(self._master)
        self.port, self.web_port = ready.port, ready.web_port
        for index in self._workers if planned.starts_workers else ():
            command = worker_command(
                sys.executable, host=planned.host, port=ready.port, index=index
            )
            self._processes.append(
                await _start_process(*command, token=self._token, has_output=False)
            )

    def send(self, order: Order, workers: Sequence[int]) -> None:
        """Send an order to some workers."""
        self._write(SendOrder(list(workers), ORDERS.dump_json(order).decode()))

    def show(self, second: ShowSecond) -> None:
        """Show a second on Locust's web page."""
        self._write(second)

    async def receive(self, listener: WorkerListener) -> None:
        """Pass messages of workers to the listener."""
        for worker, process in enumerate(self._processes):
            self._watches.append(asyncio.create_task(_watch(worker, process, listener)))
        for line in self._early_lines:
            self._dispatch(line, listener)
        master = self._master
        if master is None or master.stdout is None:
            return
        while line := await master.stdout.readline():
            self._dispatch(line, listener)
        loss_reason = _master_ended(await master.wait())
        for worker in self._workers:
            listener.on_lost(worker, loss_reason)

    async def close(self) -> None:
        """Close the connections to the workers."""
        processes = [*self._processes, *([] if self._master is None else [self._master])]
        self._write(EndFleet())
        for process in self._processes:
            if process.stdin is not None:
                process.stdin.close()  # a worker without a master yet gets no order to quit
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GRACE_SECONDS):
                await asyncio.gather(*(process.wait() for process in processes))
        for process in processes:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        for watch in self._watches:
            watch.cancel()
        await asyncio.gather(*self._watches, return_exceptions=True)

    @property
    def process_id(self) -> int:
        """Process id of Locust's master; 0 if it does not run."""
        return 0 if self._master is None else self._master.pid

    async def _wait_for_master(self, master: asyncio.subprocess.Process) -> MasterReady:
        """Return the master's ports; keep the messages of workers that were faster."""
        while master.stdout is not None and (line := await master.stdout.readline()):
            if line.startswith(b"{"):
                message = FROM_MASTER.validate_json(line)
                if isinstance(message, MasterReady):
                    return message
            self._early_lines.append(line)
        raise WorkerLostError(
            f"The fleet could not start: {_master_ended(await master.wait())}. See standard error "
            "for the cause."
        )

    def _dispatch(self, line: bytes, listener: WorkerListener) -> None:
        """Pass one line of the master to the listener: a worker's message, or a loss."""
        if not line.startswith(b"{"):
            number, _, text = line.partition(b" ")
            worker, message = int(number), _read_message(text)
            if message is not None and worker in self._workers:
                listener.on_message(worker, message)
            return
        report = FROM_MASTER.validate_json(line)
        if isinstance(report, WorkerLost) and report.worker in self._workers:
            listener.on_lost(report.worker, report.loss_reason)

    def _write(self, message: ToMaster) -> None:
        """Send a message to the master; `receive` reports a master that has ended."""
        pipe = None if self._master is None else self._master.stdin
        if pipe is not None:
            with contextlib.suppress(OSError, RuntimeError):  # uvloop's for a pipe that is closed
                pipe.write(TO_MASTER.dump_json(message) + b"\n")


def bind_host(planned: PlannedFleet) -> str:
    """Return the address that the master listens at."""
    is_here = planned.starts_workers or planned.host == _LOOPBACK
    return planned.host if is_here else _EVERY_ADDRESS


def _read_message(text: bytes) -> WorkerMessage | None:
    """Return a worker's message, None if it is none."""
    try:
        return WORKER_MESSAGES.validate_json(text)
    except ValidationError as error:
        count = error.error_count()
        sys.stderr.write(f"A worker's message was ignored: it has {count} errors.\n")
        return None


async def _watch(
    worker: int, process: asyncio.subprocess.Process, listener: WorkerListener
) -> None:
    """Report a worker of ours as lost as soon as its process ends."""
    code = await process.wait()
    await asyncio.sleep(_LAST_WORDS_SECONDS)
    listener.on_lost(worker, f"its process ended ({_describe_exit(code)})")


async def _start_process(*command: str, token: str, has_output: bool) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *command,
        # Not an argument: every user of a machine can read those.
        env={**os.environ, FLEET_TOKEN_VARIABLE: token},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE if has_output else asyncio.subprocess.DEVNULL,
        limit=LONGEST_LINE_BYTES,
    )


def _master_ended(code: int) -> str:
    return f"Locust's master ended ({_describe_exit(code)})"


def _describe_exit(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
