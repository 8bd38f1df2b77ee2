"""Requests that carry the samples of a data set, and the log of sampled replies to them."""

from collections.abc import Callable, Sequence
from itertools import cycle

from inferometer_loadgen.wire import PreparedRequest, ReplyBody

MOST_LOGGED_BYTES = 256 * 1024 * 1024


class ReplyLog:
    """The first reply to each sample that was kept within the window, in bounded memory."""

    def __init__(self) -> None:
        self.replies: dict[int, ReplyBody] = {}
        """By the index of the sample's request."""
        self._room = MOST_LOGGED_BYTES

    def add(self, index: int, reply: ReplyBody) -> None:
        """Log a reply, unless the sample has one or the memory is spent."""
        if index not in self.replies and len(reply.body) <= self._room:
            self._room -= len(reply.body)
            self.replies[index] = reply

    def clear(self) -> None:
        """Forget all replies."""
        self.replies.clear()
        self._room = MOST_LOGGED_BYTES


class SampledRequests:
    """Sends the samples in turn, and logs the replies that the driver keeps; see QueryRequests."""

    def __init__(
        self,
        requests: Sequence[Sequence[PreparedRequest]],
        check: Callable[[ReplyBody], str | None],
        log: ReplyLog,
    ) -> None:
        self._requests = requests
        self._check = check
        self._log = log
        self._order = [cycle(range(len(each))) for each in requests]
        self._sample_of: dict[int, tuple[int, bool]] = {}
        """By token: the index of the sample, and whether its query is measured."""

    def take(self, server: int, token: int, *, is_measured: bool) -> PreparedRequest:
        """Return the request with the next sample; `token` names its query from now on."""
        index = next(self._order[server])
        self._sample_of[token] = (index, is_measured)
        return self._requests[server][index]

    def check(self, token: int) -> Callable[[ReplyBody], str | None]:
        """Return the check of the reply to a query, which logs it if it is good."""
        index, is_measured = self._sample_of[token]

        def check(reply: ReplyBody) -> str | None:
            fault = self._check(reply)
            if fault is None and is_measured:
                self._log.add(index, reply)
            return fault

        return check

    def model_index(self, token: int) -> None:
        """Return None: all samples are for one model."""

    def add_latency(self, token: int, nanoseconds: int) -> None:
        """Do nothing: the step's own latency has it."""

    def fail(self, token: int, kind: str) -> None:
        """Do nothing: the step's own errors have it."""
