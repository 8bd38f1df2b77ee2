"""Measures how late this node's timers are, and how long running processes stand still.

They say whether it is fit to generate load.
"""

import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from inferometer_api.nodes.characteristics import NodeFigure
from inferometer_api.nodes.figures import figure
from inferometer_serving.node.samples import NodeProbe

_SLEEP_SECONDS = 0.001
_WAKE_UPS = 400
_REPEATS = 5
_SPIN_NS = 300_000_000
_PAUSE_NS = 20_000
"""A step of the loop that takes longer is a standstill; usually one takes a tenth of 1 us."""


class _Watch(NamedTuple):
    """What a process saw that ran for `_SPIN_NS`."""

    still_ns: int
    """Standstills within this time."""
    longest_ns: int
    """The longest of them, until its end."""


def punctuality_probes() -> Iterator[NodeProbe]:
    """Yield the probes of timers and standstills."""
    yield NodeProbe("timer", _wake_ups, ("timer/wakeUpLag",))
    yield NodeProbe("jitter", _standstills, ("jitter/share", "jitter/longest"))


def _wake_ups() -> list[NodeFigure]:
    lags = [_lags_ns() for _ in range(_REPEATS)]
    return [
        figure(
            "timer/wakeUpLag",
            "ns",
            [float(np.percentile(each, percentile)) for each in lags],
            {"percentile": f"{percentile:g}", "sleepMicroseconds": round(_SLEEP_SECONDS * 1e6)},
        )
        for percentile in (50.0, 99.0)
    ]


def _lags_ns() -> list[int]:
    found = []
    for _ in range(_WAKE_UPS):
        due = time.monotonic_ns() + round(_SLEEP_SECONDS * 1e9)
        time.sleep(_SLEEP_SECONDS)
        found.append(max(1, time.monotonic_ns() - due))
    return found


def _standstills() -> list[NodeFigure]:
    found = [_watch_clock() for _ in range(_REPEATS)]
    return [
        figure("jitter/share", "share", [each.still_ns / _SPIN_NS for each in found]),
        figure("jitter/longest", "ns", [float(max(each.longest_ns for each in found))]),
    ]


def _watch_clock() -> _Watch:
    """Return the standstills of a loop that only reads the clock."""
    still = longest = 0
    clock = time.monotonic_ns
    last = clock()
    end = last + _SPIN_NS
    while last < end:
        now = clock()
        if now - last > _PAUSE_NS:
            still += min(now, end) - last
            longest = max(longest, now - last)
        last = now
    return _Watch(still, longest)
