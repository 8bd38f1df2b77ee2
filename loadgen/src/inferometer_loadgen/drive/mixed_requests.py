"""Requests of a mix of models: the next one to each server, and the statistics of each model."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle

from inferometer_loadgen.record.recorder import ModelStatistics
from inferometer_loadgen.schedule.arrivals import Stream
from inferometer_loadgen.schedule.model_choice import model_choices
from inferometer_loadgen.wire import PreparedRequest, ReplyBody

UNSENT = -1
"""The token of a query that fails before it is sent."""


@dataclass(frozen=True, slots=True)
class MixedModelRequests:
    """The requests to one model of a mix."""

    statistics: ModelStatistics
    requests: Sequence[Sequence[PreparedRequest]]
    """Those to each server, which are sent in turn."""
    check: Callable[[ReplyBody], str | None]
    """Returns what is wrong with a reply."""


class MixedRequests:
    """Chooses the model of each query, and counts what becomes of it.

    The n-th query to a server has the n-th choice for that server, whatever becomes of the others:
    a query that fails unsent takes its choice, too.
    """

    def __init__(self, models: Sequence[MixedModelRequests], seed: int) -> None:
        self._models = models
        servers = range(len(models[0].requests))
        shares = [each.statistics.share for each in models]
        self._requests: list[list[Iterator[PreparedRequest]]] = [
            [cycle(each.requests[server]) for each in models] for server in servers
        ]
        self._warm_up, self._measured = (
            [model_choices(shares, seed, stream, server) for server in servers]
            for stream in (Stream.WARM_UP, Stream.MEASURED)
        )
        self._choice_of: dict[int, int] = {}

    def take(self, server: int, token: int, *, is_measured: bool) -> PreparedRequest:
        """Return the next request to a server; `token` names its query from now on."""
        choice = next((self._measured if is_measured else self._warm_up)[server])
        self._choice_of[token] = choice
        return next(self._requests[server][choice])

    def check(self, token: int) -> Callable[[ReplyBody], str | None]:
        """Return the check of the reply to a query."""
        return self._models[self._choice_of[token]].check

    def model_index(self, token: int) -> int:
        """Return the index of a query's model in the mix."""
        return self._choice_of[token]

    def add_latency(self, token: int, nanoseconds: int) -> None:
        """Count a measured query that succeeded."""
        self._models[self._choice_of[token]].statistics.latencies.append(nanoseconds)

    def fail(self, token: int, kind: str) -> None:
        """Count a measured query that failed."""
        self._models[self._choice_of[token]].statistics.errors[kind] += 1
