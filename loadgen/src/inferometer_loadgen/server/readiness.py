"""Wait for a server and its model, which ends at once for what cannot heal."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from inferometer_loadgen.server.control_calls import (
    AnswerError,
    AnswerKind,
    CallError,
    ControlClient,
    NotJsonError,
    UnintelligibleError,
)
from inferometer_loadgen.server.endpoint import ServerEndpoint
from inferometer_loadgen.server.port_probe import identify_port
from inferometer_loadgen.server.refusals import (
    ATTEMPT_SECONDS,
    ModelNotServedError,
    ServerNotReadyError,
    every_call_rejected,
    failure_clause,
    final_error,
    hint,
    no_inference_protocol,
    other_protocol,
)
from inferometer_loadgen.server.tls_handshake import (
    ClosedBehindError,
    ClosedInTlsError,
    check_handshake,
)
from inferometer_loadgen.wire.tls import client_certificate_error

_SHORTEST_POLL_SECONDS, _LONGEST_POLL_SECONDS = 0.02, 0.5
_POLL_SHARE = 0.02
"""A server is polled again after this share of the time that has passed."""
_HANDSHAKES = 20
"""After this many handshakes in a row that the server closes, its refusal counts as final."""
_ABSENT_SECONDS = 3.0
"""A server without the protocol's paths, or that rejects them all, is given up after this time.

A gateway has no route to a server that is just starting.
"""
_UNREADY_SERVER_SECONDS = 10.0
"""A ready model is measured after this time although its server reports that it is not ready."""
_UNREADY = frozenset((AnswerKind.NOT_READY, AnswerKind.BAD_REQUEST, AnswerKind.REJECTED))
_UNKNOWN_MODEL = frozenset((AnswerKind.ABSENT, AnswerKind.BAD_REQUEST, AnswerKind.REJECTED))


@dataclass(frozen=True, slots=True)
class ReadinessCalls:
    """When a server was called until it was ready, in Unix time by the clock of the caller."""

    first_microseconds: int
    """Start of the first call."""
    refused_microseconds: int | None
    """End of the last call that the server did not answer, or answered that it is not ready."""
    called_microseconds: int
    """Start of the calls after that, which all succeeded."""
    answered_microseconds: int
    """When the last of them was answered."""

    def unready_microseconds(self, since_microseconds: int) -> int:
        """Return for how long after a time the calls prove that the server was not ready."""
        refused = self.refused_microseconds or 0
        return max(0, refused - max(since_microseconds, self.first_microseconds)) + max(
            0, self.answered_microseconds - max(since_microseconds, self.called_microseconds)
        )


class ReadinessWait:
    """Waits until a server and its model are ready.

    With `others_may_fail` the server may stay unready for the sake of its other models.
    """

    def __init__(
        self,
        client: ControlClient,
        endpoint: ServerEndpoint,
        model_name: str,
        model_version: str,
        *,
        others_may_fail: bool,
    ) -> None:
        self._client = client
        self._at = endpoint
        self._model = (
            f"{model_name!r}, version {model_version!r}" if model_version else repr(model_name)
        )
        self._model_name = model_name
        self._others_may_fail = others_may_fail
        self._is_accepted = endpoint.tls is None
        self._handshakes = 0
        self._since: dict[str, float] = {}
        """When a state began that has lasted until now."""
        self._deadline_seconds = 0.0
        self.unready_server = ""
        """How the server reports that it is not ready although its model is, as a clause."""
        self.calls: ReadinessCalls | None = None
        """The calls of `wait`, once server and model are ready."""
        self._called_microseconds: int | None = None
        self._refused_microseconds: int | None = None

    async def wait(self, deadline_seconds: float, on_wait: Callable[[str], None]) -> None:
        """Wait for the server, then for the model; `on_wait` receives the last failure.

        Raises ServerNotReadyError past the deadline, ModelNotServedError if the server does not
        have the model, RedirectedError if it redirects, TlsRefusedError if TLS fails for good,
        AccessDeniedError and ProtocolMismatchError.
        """
        self._deadline_seconds = deadline_seconds
        first = time.time_ns() // 1000
        deadline = asyncio.get_running_loop().time() + deadline_seconds
        what = f"The server at {self._at.address}"
        await self._until(self._server_ready, deadline, what, on_wait)
        if not self.unready_server:
            what += f" was ready, but its model {self._model_name!r}"
        await self._until(self._model_ready, deadline, what, on_wait)
        self.calls = ReadinessCalls(
            first_microseconds=first,
            refused_microseconds=self._refused_microseconds,
            called_microseconds=self._called_microseconds or first,
            answered_microseconds=time.time_ns() // 1000,
        )

    async def _server_ready(self) -> None:
        await self._check_handshake()
        try:
            await self._client.server_ready()
        except AnswerError as error:
            if error.kind is AnswerKind.ABSENT:
                await self._check_protocol(error)
            elif error.kind in _UNREADY:
                if error.kind is AnswerKind.BAD_REQUEST:
                    await self._check_other_calls(error)
                await self._check_model_alone(error)
            else:
                raise

    async def _check_protocol(self, error: AnswerError) -> None:
        """Return if the server has other paths of the protocol than its readiness."""
        for call in (self._client.server_metadata, self._client.model_metadata):
            try:
                await call()
            except NotJsonError:
                continue
            except AnswerError as other:
                if other.kind is not AnswerKind.ABSENT:
                    raise
            else:
                return
        if self._lasts("absent", _ABSENT_SECONDS):
            raise no_inference_protocol(self._at, str(error)) from error
        raise error

    async def _check_other_calls(self, error: AnswerError) -> None:
        """Return if the server finds other calls than its readiness in order."""
        for call in (self._client.server_metadata, self._client.model_metadata):
            try:
                await call()
            except AnswerError as other:
                if other.kind is AnswerKind.BAD_REQUEST:
                    continue
            except CallError:
                pass
            self._since.pop("every call rejected", None)
            return
        if self._lasts("every call rejected", _ABSENT_SECONDS):
            raise every_call_rejected(self._at, str(error)) from error

    async def _check_model_alone(self, error: AnswerError) -> None:
        """Return if the model has been ready for some time although the server is not."""
        if not self._others_may_fail:
            raise error
        try:
            await self._client.model_ready()
        except CallError:
            self._since.pop("model alone", None)
            raise error from None
        if not self._lasts("model alone", _UNREADY_SERVER_SECONDS):
            raise error
        self.unready_server = str(error)

    async def _model_ready(self) -> None:
        try:
            await self._client.model_metadata()
        except NotJsonError as error:
            raise no_inference_protocol(self._at, str(error)) from error
        except AnswerError as error:
            if error.kind in _UNKNOWN_MODEL:
                raise ModelNotServedError(
                    f"The server at {self._at.address} does not serve the model {self._model}: "
                    f"{error}."
                ) from error
            raise
        try:
            await self._client.model_ready()
        except AnswerError as error:
            if error.kind is not AnswerKind.ABSENT:  # a server that describes a model has it
                raise

    def _lasts(self, state: str, seconds: float) -> bool:
        """Return whether a state has lasted for so long, or for half of the deadline."""
        now = asyncio.get_running_loop().time()
        began = self._since.setdefault(state, now)
        return now - began >= min(seconds, self._deadline_seconds / 2)

    async def _check_handshake(self) -> None:
        at = self._at
        if self._is_accepted or at.tls is None:
            return
        try:
            await check_handshake(at.protocol, at.host, at.port, at.tls)
        except ClosedBehindError:
            self._handshakes += 1
            if self._handshakes < _HANDSHAKES:
                raise
            raise client_certificate_error(f"{at.host}:{at.port}", at.tls) from None
        except OSError:
            self._handshakes = 0
            raise
        self._is_accepted = True

    async def _until(
        self,
        ready: Callable[[], Awaitable[None]],
        deadline: float,
        what: str,
        on_wait: Callable[[str], None],
    ) -> None:
        loop = asyncio.get_running_loop()
        last = ""
        while True:
            on_wait(last)
            left = max(0.1, deadline - loop.time())
            if self._called_microseconds is None:
                self._called_microseconds = time.time_ns() // 1000
            try:
                async with asyncio.timeout(min(ATTEMPT_SECONDS, left)):
                    return await ready()
            except (CallError, OSError, TimeoutError) as fault:
                self._called_microseconds = None
                self._refused_microseconds = time.time_ns() // 1000
                # An attempt that the deadline cut short says less than the previous one.
                is_cut_short = isinstance(fault, TimeoutError) and left < ATTEMPT_SECONDS
                if not (last and is_cut_short):
                    last = await self._failure(fault)
            pause = (loop.time() - deadline + self._deadline_seconds) * _POLL_SHARE
            pause = min(_LONGEST_POLL_SECONDS, max(_SHORTEST_POLL_SECONDS, pause))
            if loop.time() + pause > deadline:
                raise ServerNotReadyError(
                    f"{what} was not ready within {self._deadline_seconds:g} s "
                    f"(server.readyDeadlineSeconds): {last}."
                )
            await asyncio.sleep(pause)

    async def _failure(self, fault: BaseException) -> str:
        """Return why an attempt failed, as a clause; raises what cannot heal."""
        if isinstance(fault, CallError) and (final := final_error(fault, self._at)) is not None:
            raise final from fault
        is_unintelligible = isinstance(fault, UnintelligibleError)
        at, with_tls = self._at, self._at.tls is not None
        if self._may_lack_tls(fault) if with_tls else is_unintelligible:
            try:
                found = await identify_port(at.protocol, at.host, at.port, with_tls=with_tls)
            except OSError as error:
                return failure_clause(error, at)
            if found is not None:
                raise other_protocol(at, found) from fault
        clause = failure_clause(fault, at)
        return f"{clause}; {hint(at)}" if is_unintelligible else clause

    def _may_lack_tls(self, fault: BaseException) -> bool:
        """Return whether a handshake got no answer, as from a server that waits for plain text."""
        return not self._is_accepted and (
            isinstance(fault, TimeoutError)
            or (isinstance(fault, ClosedInTlsError) and not isinstance(fault, ClosedBehindError))
        )
