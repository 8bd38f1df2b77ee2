"""Compares our latencies with the oracle's by order statistics, since queries cannot be matched.

We keep no list of queries, so that no query of ours can be matched with one of the oracle's. But if
every latency is at least `least` of its query, then the k-th smallest latency is at least the k-th
smallest `least`, for every k: that needs no luck. Likewise from above, where all but `exceptions`
queries are at most `most`: the k-th smallest latency is at most the (k + exceptions)-th smallest
`most`.
"""

from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from math import comb

import numpy as np
from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped]  # has no types

from inferometer_api.results.result import Distribution
from support.oracle_process import Integers, Seen

UNBOUNDED = 1 << 62
_UNLIKELY = Fraction(1, 10**7)


@dataclass(frozen=True, slots=True)
class Latencies:
    """Sorted latencies, each known within its counter of the histogram."""

    low: Integers
    high: Integers


def latencies(distribution: Distribution) -> Latencies:
    """Decode a histogram by the hdrhistogram package."""
    decoded = HdrHistogram.decode(distribution.histogram)
    rows = [
        (item.value_iterated_to, item.count_added_in_this_iter_step)
        for item in decoded.get_recorded_iterator()
    ]
    values, counts = np.array(rows, dtype=np.int64).T
    low = np.array([decoded.get_lowest_equivalent_value(int(value)) for value in values])
    high = np.array([decoded.get_highest_equivalent_value(int(value)) for value in values])
    return Latencies(np.repeat(low, counts), np.repeat(high, counts))


def below(ours: Latencies, least: Integers, exceptions: int = 0) -> int:
    """Return by how much our k-th latency is below the k-th `least`, at worst; 0: never."""
    count = len(least)
    assert len(ours.high) == count, f"{len(ours.high)} latencies of {count} queries"
    bounded = np.sort(least)[: count - exceptions]
    return max(0, int((bounded - ours.high[exceptions:]).max(initial=0)))


def above(ours: Latencies, most: Integers, exceptions: int = 0) -> int:
    """Return by how much our k-th latency is above the (k + exceptions)-th `most`, at worst."""
    count = len(most)
    assert len(ours.low) == count, f"{len(ours.low)} latencies of {count} queries"
    bounded = np.sort(most)[exceptions:]
    return max(0, int((ours.low[: count - exceptions] - bounded).max(initial=0)))


def closed_loop_bounds(seen: Seen, clients_per_connection: int = 1) -> Integers:
    """Return a time that no latency of a closed loop can exceed, from the oracle's own times alone.

    A client sends as soon as it is answered. So a query left the client after the reply was sent
    that let it, and was answered before the query was received that its reply let go: the wire's
    cost of each query lies within two gaps that the oracle saw. The first queries of a connection
    have no such reply and the last none after them: `UNBOUNDED`.
    """
    most = np.full(len(seen), UNBOUNDED, dtype=np.int64)
    for connection in np.unique(seen.connection):
        places = np.flatnonzero(seen.connection == connection)
        received, sent = seen.received[places], seen.sent[places]
        by_sent = np.argsort(sent, kind="stable")
        inner = np.arange(clients_per_connection, len(places))
        way_here = np.full(len(places), UNBOUNDED // 4, dtype=np.int64)
        way_back = way_here.copy()
        let_go_by = by_sent[inner - clients_per_connection]
        way_here[inner] = received[inner] - sent[let_go_by]
        way_back[let_go_by] = received[inner] - sent[let_go_by]
        most[places] = way_here + (sent - received) + way_back
    return most


def exceptions_beyond(rank: int, judges: int, judged: int) -> int:
    """Return how many of `judged` may exceed the `rank`-th largest of the `judges`, by chance.

    Of values in random order, that is: the probability of more is below 1 in ten million. More
    than m exceed it if and only if of the m + rank largest at most rank - 1 are of the judges.
    """
    whole = judges + judged

    def is_likely(more: int) -> bool:
        top = more + rank
        fewer = sum(comb(judges, j) * comb(judged, top - j) for j in range(rank))
        return Fraction(fewer, comb(whole, top)) >= _UNLIKELY

    return bisect_left(range(judged), True, key=lambda more: not is_likely(more))


def nearest_rank(percentile: float, count: int) -> int:
    """Return the rank of a percentile: the least that covers so many, reckoned in fractions."""
    share = Fraction(str(percentile)) / 100
    return max(1, -(-share.numerator * count // share.denominator))
