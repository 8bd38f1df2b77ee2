"""Collects the answers of workers to an order, and carries their errors to the session."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Generic, TypeVar

from inferometer_loadgen.drive.first_requests import FirstRequestsRefusedError, NoAnswerError
from inferometer_loadgen.fleet.messages import WorkerFault
from inferometer_loadgen.requests.inputs import InputRefusedError
from inferometer_loadgen.server.control_calls import RedirectedError
from inferometer_loadgen.server.refusals import (
    AccessDeniedError,
    ModelNotServedError,
    ProtocolMismatchError,
    ServerNotReadyError,
)
from inferometer_loadgen.wire import ConnectionFailedError
from inferometer_loadgen.wire.tls import TlsRefusedError

Answer = TypeVar("Answer")

KNOWN_ERRORS: Mapping[str, type[Exception]] = {
    kind.__name__: kind
    for kind in (
        AccessDeniedError,
        ConnectionFailedError,
        InputRefusedError,
        ModelNotServedError,
        NoAnswerError,
        ProtocolMismatchError,
        RedirectedError,
        FirstRequestsRefusedError,
        ServerNotReadyError,
        TlsRefusedError,
    )
}
"""Errors of a worker that end a run as they do without a fleet."""


class WorkerLostError(RuntimeError):
    """A worker of the fleet is lost; the message says which, why and what to do."""


class AnswerCollector(Generic[Answer]):
    """Waits until each of some workers has answered, or one cannot. See WorkerListener."""

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

    def on_message(self, worker: int, message: object) -> None:
        """Take any message of a worker; ignore those of another kind."""
        if self._all.done() or worker not in self._missing:
            return
        match message:
            case WorkerFault():
                self._all.set_exception(decode_error(worker, message))
            case _ if isinstance(message, self._kind):
                self._answers[worker] = message
                self._missing.discard(worker)
                if not self._missing:
                    self._all.set_result(self._answers)
            case _:
                return

    def on_lost(self, worker: int, loss_reason: str) -> None:
        """Fail if the worker has not answered yet."""
        if worker in self._missing and not self._all.done():
            self._all.set_exception(worker_lost_error(worker, loss_reason))

    async def wait(self) -> dict[int, Answer]:
        """Return the answers by worker.

        Raises WorkerLostError if a worker is lost, and the error of a worker that failed.
        """
        return await self._all


def worker_lost_error(worker: int, loss_reason: str) -> WorkerLostError:
    """Return the error of a lost worker."""
    return WorkerLostError(
        f"Worker {worker} of the fleet was lost: {loss_reason}. The run ends, because the load "
        "would be smaller than requested. Look for what ended the worker (memory, a lost node), "
        "and run it again."
    )


def encode_error(error: Exception) -> WorkerFault:
    """Return a worker's error as a message; a subclass travels as its known base class."""
    kind = next((name for name, kind in KNOWN_ERRORS.items() if isinstance(error, kind)), None)
    if kind is None:
        return WorkerFault(type(error).__name__, repr(error))
    return WorkerFault(kind, str(error))


def decode_error(worker: int, fault: WorkerFault) -> Exception:
    """Return the error that a worker reported."""
    kind = KNOWN_ERRORS.get(fault.kind)
    if kind is None:
        return RuntimeError(f"worker {worker} failed: {fault.message}")
    return kind(fault.message)
