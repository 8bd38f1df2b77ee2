"""Which answers of the workers are waited for, and what comes of a worker that cannot give one?"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Generic, TypeVar

from inferometer_loadgen.drive.first_requests import FirstRequestsRefusedError, NoAnswerError
from inferometer_loadgen.fleet.messages import Fault
from inferometer_loadgen.requests.inputs import InputRefusedError
from inferometer_loadgen.server.control_clients import RedirectedError
from inferometer_loadgen.server.control_plane import ModelNotServedError, ServerNotReadyError
from inferometer_loadgen.wire import ConnectionFailedError
from inferometer_loadgen.wire.tls import TlsRefusedError

Answer = TypeVar("Answer")

FAULTS: Mapping[str, type[Exception]] = {
    kind.__name__: kind
    for kind in (
        ConnectionFailedError,
        InputRefusedError,
        ModelNotServedError,
        NoAnswerError,
        RedirectedError,
        FirstRequestsRefusedError,
        ServerNotReadyError,
        TlsRefusedError,
    )
}
"""Faults of a worker that end a run as they do where there is no fleet."""


class WorkerLostError(RuntimeError):
    """A worker of the fleet is lost; the message is a sentence."""


class Round(Generic[Answer]):
    """Waits until each of some workers has answered, or one cannot."""

    def __init__(self, kind: type[Answer], workers: Iterable[int]) -> None:
        self._kind = kind
        self._missing = set(workers)
        self._answers: dict[int, Answer] = {}
        self._all: asyncio.Future[dict[int, Answer]] = asyncio.get_running_loop().create_future()
        if not self._missing:
            self._all.set_result({})

    @property
    def missing(self) -> list[int]:
        """The workers that have not answered yet."""
        return sorted(self._missing)

    def hear(self, worker: int, word: object) -> None:
        """Take what a worker said, whatever it is."""
        if self._all.done() or worker not in self._missing:
            return
        match word:
            case Fault():
                self._all.set_exception(fault_of(worker, word))
            case _ if isinstance(word, self._kind):
                self._answers[worker] = word
                self._missing.discard(worker)
                if not self._missing:
                    self._all.set_result(self._answers)
            case _:
                return

    def lose(self, worker: int, loss_reason: str) -> None:
        """Take note that a worker is lost."""
        if worker in self._missing and not self._all.done():
            self._all.set_exception(lost(worker, loss_reason))

    async def answers(self) -> dict[int, Answer]:
        """Return the answers by worker.

        Raises WorkerLostError where one is lost, and what a worker could not do as it met it.
        """
        return await self._all


def lost(worker: int, loss_reason: str) -> WorkerLostError:
    """Return the fault of a worker that is lost."""
    return WorkerLostError(
        f"Worker {worker} of the fleet was lost: {loss_reason}. A load is never made smaller in silence: "
        "run it again, and look for what ended the worker (memory, a node that went)."
    )


def told_as(error: Exception) -> Fault:
    """Return a worker's exception as it tells it: by the name of the fault that it is, too."""
    kind = next((name for name, kind in FAULTS.items() if isinstance(error, kind)), None)
    return Fault(type(error).__name__, repr(error)) if kind is None else Fault(kind, str(error))


def fault_of(worker: int, fault: Fault) -> Exception:
    """Return a worker's fault as the exception that it met."""
    kind = FAULTS.get(fault.kind)
    if kind is None:
        return RuntimeError(f"worker {worker} failed: {fault.message}")
    return kind(fault.message)
