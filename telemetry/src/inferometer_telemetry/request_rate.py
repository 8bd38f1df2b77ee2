"""Limit on what one client may have the agent read."""

from collections.abc import Callable
from dataclasses import dataclass, field

TARGETS_PER_SECOND = 100.0
"""Sustained, of one address: a load generator reads its few pods once a second and at the edges of
its windows."""
MOST_TARGETS = 200.0
"""At once."""
_MOST_ADDRESSES = 1024


@dataclass(slots=True)
class _Bucket:
    left: float
    at_ns: int


@dataclass(slots=True)
class RequestRate:
    """A token bucket for each client's address; the newest addresses are remembered."""

    monotonic_ns: Callable[[], int]
    _buckets: dict[str, _Bucket] = field(default_factory=dict)

    def wait_seconds(self, address: str, targets: int) -> float:
        """Take a request for this number of targets; return how long to wait if it is too many.

        0 if the request is granted. A request counts as one target more than it names.
        """
        now_ns, cost = self.monotonic_ns(), targets + 1.0
        bucket = self._buckets.pop(address, None) or _Bucket(MOST_TARGETS, now_ns)
        gained = (now_ns - bucket.at_ns) / 1e9 * TARGETS_PER_SECOND
        bucket.left, bucket.at_ns = min(MOST_TARGETS, bucket.left + gained), now_ns
        self._buckets[address] = bucket
        if len(self._buckets) > _MOST_ADDRESSES:
            # The first is the one whose last request is the longest ago.
            del self._buckets[next(iter(self._buckets))]
        if bucket.left < cost:
            return (cost - bucket.left) / TARGETS_PER_SECOND
        bucket.left -= cost
        return 0.0
