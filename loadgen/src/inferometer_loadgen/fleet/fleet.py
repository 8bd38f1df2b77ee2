"""How are a fleet's processes started, spoken to, heard and ended by the session?"""

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar

from inferometer_api.plan.launch import worker_command
from inferometer_api.plan.load_plan import PlannedFleet
from inferometer_loadgen.fleet.lines import LONGEST_BYTES
from inferometer_loadgen.fleet.messages import ORDERS, WORDS, Hello, Order, Word
from inferometer_loadgen.fleet.relay import (
    FROM_MASTER,
    TO_MASTER,
    Bound,
    Lost,
    Quit,
    Send,
    Show,
    ToMaster,
)
from inferometer_loadgen.fleet.round import Round, WorkerLostError

_GRACE_SECONDS = 1.0
_EVERY_ADDRESS = "*"
_LOOPBACK = "127.0.0.1"

Answer = TypeVar("Answer")


class Hearer(Protocol):
    """Hears what workers say."""

    def hear(self, worker: int, word: Word) -> None:
        """Take what a worker said."""

    def lose(self, worker: int, loss_reason: str) -> None:
        """Take note that a worker is lost, and of what became of it."""


class FleetNotReadyError(RuntimeError):
    """Not every worker came in time; the message is a sentence."""


class Fleet:
    """The workers of one run, numbered from 0."""

    def __init__(self, planned: PlannedFleet, workers: int) -> None:
        self._planned = planned
        self.workers: Sequence[int] = range(workers)
        self.lost: dict[int, str] = {}
        """What became of the workers that are lost."""
        self.heard_ns = dict.fromkeys(self.workers, 0)
        """When each said something last, on our clock."""
        self.hellos: dict[int, Hello] = {}
        self.web_port: int | None = None
        self.port = 0
        self._hearers: list[Hearer] = []
        self._master: asyncio.subprocess.Process | None = None
        self._processes: list[asyncio.subprocess.Process] = []
        self._bound: asyncio.Future[Bound] = asyncio.get_running_loop().create_future()
        self._came = Round(Hello, self.workers)
        self._hearers.append(self._came)
        self._tasks: list[asyncio.Task[None]] = []
        self._is_ending = False

    @classmethod
    @asynccontextmanager
    async def started(cls, planned: PlannedFleet, workers: int) -> "AsyncIterator[Fleet]":
        """Start Locust's master, and the workers where that is asked; end them all at last.

        Raises WorkerLostError where the master cannot listen.
        """
        fleet = cls(planned, workers)
        try:
            await fleet._start()
            yield fleet
        finally:
            await fleet._end()

    async def gathered(self, told: Callable[[float, str], None]) -> None:
        """Wait until every worker is there; `told` hears the share that is, and who is not.

        Raises FleetNotReadyError after the deadline, and WorkerLostError.
        """
        limit = self._planned.ready_deadline_seconds
        coming = asyncio.create_task(self._came.answers())
        began = time.monotonic()
        while not coming.done():
            missing = self._came.missing
            told(1 - len(missing) / len(self.workers), f"{_listed(missing)} did not come yet")
            if time.monotonic() - began > limit:
                coming.cancel()
                raise FleetNotReadyError(
                    f"{len(self.workers)} workers were asked for (spec.load.workers), but "
                    f"{_listed(missing)} did not come within {limit} s: look at what keeps them, "
                    "or ask for fewer."
                )
            await asyncio.wait([coming], timeout=0.1)
        self.hellos = coming.result()

    def send(self, order: Order, workers: Iterable[int] | None = None) -> None:
        """Give the workers an order, all of them where none are named."""
        line = ORDERS.dump_json(order).decode()
        self._write(Send(list(self.workers if workers is None else workers), line))

    async def ask(
        self, order: Order, kind: type[Answer], workers: Iterable[int] | None = None
    ) -> dict[int, Answer]:
        """Give an order and return the answers of that kind, by worker.

        Raises WorkerLostError, and what a worker could not do as it met it.
        """
        asked = list(self.workers if workers is None else workers)
        return await self.answered(kind, asked, lambda: self.send(order, asked))

    async def answered(
        self, kind: type[Answer], workers: Sequence[int], act: Callable[[], None]
    ) -> dict[int, Answer]:
        """Do something and return what the workers answer of that kind. Raises as `ask` does."""
        answers = Round(kind, workers)
        with self.hearing(answers):
            for worker in workers:
                if worker in self.lost:
                    answers.lose(worker, self.lost[worker])
            act()
            return await answers.answers()

    @contextlib.contextmanager
    def hearing(self, hearer: Hearer) -> Iterator[None]:
        """Let someone hear all that workers say."""
        self._hearers.append(hearer)
        try:
            yield
        finally:
            self._hearers.remove(hearer)

    def show(self, second: Show) -> None:
        """Show a second on the web page, where there is one."""
        if self.web_port is not None:
            self._write(second)

    def lose(self, worker: int, loss_reason: str) -> None:
        """Take a worker for lost."""
        if worker in self.lost or self._is_ending:
            return
        self.lost[worker] = loss_reason
        for hearer in list(self._hearers):
            hearer.lose(worker, loss_reason)

    @property
    def process_id(self) -> int:
        """Of Locust's master."""
        return 0 if self._master is None else self._master.pid

    # -- processes ---------------------------------------------------------------------------------

    async def _start(self) -> None:
        planned = self._planned
        web = () if planned.web_port is None else ("--web-port", str(planned.web_port))
        self._master = await _started(
            sys.executable,
            *("-m", "inferometer_loadgen.fleet.master"),
            *("--bind-host", bind_host(planned)),
            *("--port", str(planned.port)),
            *web,
            is_heard=True,
        )
        self._tasks.append(asyncio.create_task(self._listen(self._master)))
        bound = await self._bound
        self.port, self.web_port = bound.port, bound.web_port
        for index in self.workers if planned.starts_workers else ():
            command = worker_command(
                sys.executable, host=planned.host, port=bound.port, index=index
            )
            process = await _started(*command, is_heard=False)
            self._processes.append(process)
            self._tasks.append(asyncio.create_task(self._watch(index, process)))

    async def _listen(self, master: asyncio.subprocess.Process) -> None:
        output = master.stdout
        while output is not None and (line := await output.readline()):
            if line.startswith(b"{"):
                self._take(FROM_MASTER.validate_json(line))
            else:
                number, _, words = line.partition(b" ")
                self._hear(int(number), WORDS.validate_json(words))
        code = await master.wait()
        loss_reason = f"Locust's master ended ({_ended(code)})"
        if not self._bound.done():
            self._bound.set_exception(
                WorkerLostError(
                    f"The fleet could not begin: {loss_reason}. Standard error tells why."
                )
            )
        for worker in self.workers:
            self.lose(worker, loss_reason)

    def _take(self, told: Bound | Lost) -> None:
        match told:
            case Bound():
                self._bound.set_result(told)
            case Lost():
                self.lose(told.worker, told.loss_reason)

    def _hear(self, worker: int, word: Word) -> None:
        self.heard_ns[worker] = time.monotonic_ns()
        for hearer in list(self._hearers):
            hearer.hear(worker, word)

    async def _watch(self, worker: int, process: asyncio.subprocess.Process) -> None:
        """Take a worker of ours for lost as soon as its process ends."""
        code = await process.wait()
        # It may have said why, by way of the master.
        await asyncio.sleep(_SAID_WHY_SECONDS)
        self.lose(worker, f"its process ended ({_ended(code)})")

    def _write(self, order: ToMaster) -> None:
        """Tell the master; one that has ended hears nothing, and its end is told by `_listen`."""
        pipe = None if self._master is None else self._master.stdin
        if pipe is not None:
            with contextlib.suppress(OSError, RuntimeError):  # uvloop's for a pipe that is closed
                pipe.write(TO_MASTER.dump_json(order) + b"\n")

    async def _end(self) -> None:
        self._is_ending = True
        processes = [*self._processes, *([] if self._master is None else [self._master])]
        self._write(Quit())
        for process in self._processes:
            if process.stdin is not None:
                process.stdin.close()  # whoever has not come yet hears no master
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GRACE_SECONDS):
                await asyncio.gather(*(process.wait() for process in processes))
        for process in processes:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


_SAID_WHY_SECONDS = 0.3


def bind_host(planned: PlannedFleet) -> str:
    """Return the address that the master listens at."""
    is_here = planned.starts_workers or planned.host == _LOOPBACK
    return planned.host if is_here else _EVERY_ADDRESS


async def _started(*command: str, is_heard: bool) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE if is_heard else asyncio.subprocess.DEVNULL,
        limit=LONGEST_BYTES,
    )


def _ended(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def _listed(workers: Sequence[int]) -> str:
    shown = ", ".join(map(str, workers[:8]))
    more = f" and {len(workers) - 8} more" if len(workers) > 8 else ""
    return f"worker{'s' if len(workers) != 1 else ''} {shown}{more}"
