"""First requests: check that the server answers before the warm-up.

A request that the server refuses then ends the run with the server's own message, instead of a
measurement made of errors. The replies also show which outputs carry the batch.
"""

import asyncio
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from inferometer_api.scenarios.step_setting import FIRST_QUERIES
from inferometer_api.wording import as_sentence
from inferometer_loadgen.drive import OpenConnection
from inferometer_loadgen.wire import (
    Connection,
    Failure,
    FailureKind,
    PreparedRequest,
    ReplyBody,
    no_answer_message,
)


class FirstRequestsRefusedError(ValueError):
    """The server refused the requests of a scenario."""


class NoAnswerError(RuntimeError):
    """The server gave no readable answer."""


@dataclass(frozen=True, slots=True)
class FirstReplies:
    """The replies to the first requests, and how many were sent."""

    replies: list[ReplyBody]
    sent: int
    latencies_ns: list[int] = field(default_factory=list)
    """From each send to its reply; that of the first answer counts from the first send."""


_Answer = tuple[Failure | None, ReplyBody | None]


async def send_first_requests(
    open_one: OpenConnection,
    requests: Sequence[PreparedRequest],
    timeout_seconds: float,
    what: str,
    sending: Callable[[], None],
    count: int = FIRST_QUERIES,
) -> FirstReplies:
    """Send the first requests one by one; `what` names them in the message of a failure.

    `sending` is called right before the first is sent.
    Raises ConnectionFailedError, and FirstRequestsRefusedError or NoAnswerError if no request
    succeeds.
    """
    pending: dict[int, asyncio.Future[_Answer]] = {}

    def on_reply(token: int, failure: Failure | None, reply: ReplyBody | None) -> None:
        if not pending[token].done():
            pending[token].set_result((failure, reply))

    replies: list[ReplyBody] = []
    latencies_ns: list[int] = []
    last: Failure | None = None
    has_capacity = asyncio.Event()
    connection = await open_one(on_reply, lambda _: has_capacity.set())
    sending()
    sent_ns = time.monotonic_ns()
    try:
        for token in range(count):
            pending[token] = asyncio.get_running_loop().create_future()
            failure, reply = await _send(
                connection,
                requests[token % len(requests)],
                token,
                pending[token],
                has_capacity,
                timeout_seconds,
            )
            if failure is None and reply is not None:
                replies.append(reply)
                latencies_ns.append(time.monotonic_ns() - sent_ns)
            if replies:
                sent_ns = time.monotonic_ns()
            last = failure or last
    finally:
        await connection.close()
    if not replies and last is not None:
        raise refusal_of(last, what, count)
    return FirstReplies(replies, count, latencies_ns)


async def _send(
    connection: Connection,
    request: PreparedRequest,
    token: int,
    answer: "asyncio.Future[_Answer]",
    has_capacity: asyncio.Event,
    timeout_seconds: float,
) -> _Answer:
    is_sent = False
    try:
        async with asyncio.timeout(timeout_seconds):
            while connection.outstanding >= connection.capacity:
                has_capacity.clear()
                await has_capacity.wait()
            connection.send(request, token, keep_reply=True)
            is_sent = True
            return await answer
    except TimeoutError:
        if is_sent:
            came = connection.cancel(token)
            message = no_answer_message(f"{timeout_seconds:g} s", came)
        elif connection.connected:
            message = (
                f"The server allowed no request within {timeout_seconds:g} s: it allows "
                f"{connection.capacity} streams (SETTINGS_MAX_CONCURRENT_STREAMS)."
            )
        else:
            message = f"There was no connection for {timeout_seconds:g} s. {connection.last_error}"
        return Failure(FailureKind.TIMEOUT, message.strip()), None


_ABOUT_INPUTS = re.compile(
    r"input|tensor|shape|dtype|data ?type|dimension|\bdims?\b|\baxis\b|\brank\b|batch|element|"
    r"\bbytes? size|broadcast",
    re.IGNORECASE,
)
"""Words of a server that refuses what it was sent."""


def refusal_of(failure: Failure, what: str, count: int) -> Exception:
    """Return the error of a scenario whose first `count` requests failed, the last of them thus."""
    message = as_sentence(failure.message)
    if failure.kind is FailureKind.STATUS:
        advice = " Change spec.load.inputs if it does not fit the model."
        return FirstRequestsRefusedError(
            f"The server refused the first {count} requests {what}: {message}"
            f"{advice if _ABOUT_INPUTS.search(message) else ''}"
        )
    return NoAnswerError(
        f"The server answered none of the first {count} requests {what}: {message}"
    )
