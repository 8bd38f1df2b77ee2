"""One inference over HTTP, from its complete body to its reply.

Small requests are read at once and, where the model is tiny, computed at once. What would hold up
the event loop is read in a thread of its own; and what the model computes, an instance computes.
"""

from collections.abc import Callable
from time import monotonic_ns

from inferometer_serving.http.head import Head
from inferometer_serving.http.infer import Answer, error_answer, read_request
from inferometer_serving.infer.pending_request import PendingRequest
from inferometer_serving.infer.tensors import Raw
from inferometer_serving.request_router import RequestRouter
from inferometer_serving.server_state import ServerState
from inferometer_serving.tracing import RequestTrace

_READ_HERE_UP_TO_BYTES = 16384
"""JSON of this size is read within some 0.1 ms; tensors behind it cost nothing to read."""


def answered_now(
    state: ServerState,
    model: RequestRouter,
    head: Head,
    body: Raw,
    trace: RequestTrace | None = None,
) -> Answer | None:
    """Return the answer where a tiny model computes it in the event loop; else None."""
    if head.body_encoding is not None or not model.runs_inline(len(body)):
        return None
    began_ns = monotonic_ns()
    keeps = state.keeps_connections
    try:
        try:
            read = read_request(model, head, body, state.options.max_body_bytes, keeps)
        except Exception:
            model.count_refusal("http", began_ns)
            raise
        return model.compute_now("http", began_ns, read, trace)
    except Exception as error:  # noqa: BLE001 - one request's fault must not end the server
        return error_answer(error, keep_alive=head.keep_alive and keeps())


class Inference:
    """One request whose body is here, and which an instance is to compute."""

    __slots__ = ("_began_ns", "_head", "_is_dropped", "_model", "_pending", "_state", "_trace")

    def __init__(
        self,
        state: ServerState,
        model: RequestRouter,
        head: Head,
        trace: RequestTrace | None = None,
    ) -> None:
        self._state = state
        self._trace = trace
        self._model = model
        self._head = head
        self._began_ns = monotonic_ns()
        self._pending: PendingRequest[Answer] | None = None
        self._is_dropped = False

    def refused_now(self, body: Raw) -> Answer | None:
        """Read a small request at once; return the answer only where it is refused."""
        head = self._head
        json_bytes = len(body) if head.json_bytes is None else head.json_bytes
        if head.body_encoding is not None or json_bytes > _READ_HERE_UP_TO_BYTES:
            return None
        try:
            self._pending = self._read(body)
        except Exception as error:  # noqa: BLE001 - one request's fault must not end the server
            return self._refuse(error)
        return None

    def later(self, body: Raw, answered: Callable[[Answer], None]) -> None:
        """Call `answered` in the event loop once the answer is there, unless dropped before."""
        if self._pending is not None:
            self._compute(self._pending, answered)
            return

        def read(pending: PendingRequest[Answer] | None, error: BaseException | None) -> None:
            if self._is_dropped:
                return
            if pending is not None:
                self._compute(pending, answered)
            elif isinstance(error, Exception):
                answered(self._refuse(error))

        self._state.reading.submit(lambda: None if self._is_dropped else self._read(body), read)

    def drop(self) -> None:
        """Forget the request: its client has gone."""
        self._is_dropped = True
        if self._pending is not None:
            self._model.pool.drop(self._pending)

    def _read(self, body: Raw) -> PendingRequest[Answer]:
        state = self._state
        limit_bytes = state.options.max_body_bytes
        keeps = (
            state.keeps_connections
        )  # not a method of this object, which must not keep itself alive
        read = read_request(self._model, self._head, body, limit_bytes, keeps)
        return self._model.prepare("http", self._began_ns, read, self._trace)

    def _compute(self, pending: PendingRequest[Answer], answered: Callable[[Answer], None]) -> None:
        def done(answer: Answer | None, error: Exception | None) -> None:
            if answer is not None:
                answered(answer)
            elif error is not None:
                answered(self._failed(error))

        self._pending = pending
        pending.done = done
        try:
            self._model.put(pending)
        except Exception as error:  # noqa: BLE001 - as above
            answered(self._refuse(error))

    def _refuse(self, error: Exception) -> Answer:
        self._model.count_refusal("http", self._began_ns)
        return self._failed(error)

    def _failed(self, error: Exception) -> Answer:
        keep_alive = self._head.keep_alive and self._state.keeps_connections()
        return error_answer(error, keep_alive=keep_alive)
