"""Pilots of a search: whole probes on both sides of the best estimate, which choose two rates."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from inferometer_loadgen.search.goal import Goal
from inferometer_loadgen.search.peak_regression import PeakEstimate, ProbeCount, estimate_peak
from inferometer_loadgen.search.probes import ProbeAt, probe_at
from inferometer_loadgen.search.roles import FAR, RESOLUTION

FEWEST_PILOTS = 4
PILOT_BURSTS = 5
"""Bursts of overshoots that locate the peak well enough for rates on both sides of it."""
_FIRST_STEP = 0.08
_LEAST_STEP, _MOST_STEP = 0.002, 0.15
_LOG_SHARE_APART = 0.85
"""Distance of probes from the estimate, in logarithms of the share: far enough for the slope, near
enough for a straight line."""


@dataclass(frozen=True, slots=True)
class PilotEstimate:
    """The peak as the pilots locate it."""

    goal: Goal
    pilots: Sequence[ProbeCount]
    near: Sequence[ProbeCount]
    """Pilots that are not far beyond the peak."""
    centre: PeakEstimate | None

    @property
    def is_located(self) -> bool:
        """Whether the two rates can be chosen."""
        return self.centre is not None and _is_located(self.goal, self.near, self.centre)

    def next_pilot(self) -> ProbeAt:
        """Return the next pilot."""
        return _next_pilot(self.goal, self.pilots, self.near, self.centre)

    def next_counted(self, counted: int) -> ProbeAt:
        """Return the next probe at the two rates, after so many of them."""
        if self.centre is None:
            raise ValueError("the pilots have not located the peak")
        step = _step(self.centre, self.pilots, self.near)
        return probe_at(self.centre.qps * (1 + step * (-1) ** counted))


def estimate_from(goal: Goal, pilots: Sequence[ProbeCount]) -> PilotEstimate:
    """Return the peak as these pilots locate it."""
    near = _near(pilots, goal.share)
    return PilotEstimate(goal, pilots, near, estimate_peak(near, goal.share))


def _near(pilots: Sequence[ProbeCount], share: float) -> tuple[ProbeCount, ...]:
    """Leave out pilots far beyond the peak, where the share approaches 1 and stops rising."""
    late = [each.share for each in pilots if each.share > share]
    limit = max(FAR * share, min(late, default=0.0))
    return tuple(each for each in pilots if each.share <= limit)


def _is_located(goal: Goal, near: Sequence[ProbeCount], centre: PeakEstimate) -> bool:
    """Return whether there are enough pilots, and those on both sides are near the peak."""
    if len(near) < FEWEST_PILOTS or centre.bursts < PILOT_BURSTS:
        return False
    if max(each.share for each in near) <= FAR * goal.share:
        return True
    good, late = _good_and_late(goal, near)
    return _lowest(late) <= RESOLUTION * _highest(good)


def _next_pilot(
    goal: Goal, pilots: Sequence[ProbeCount], near: Sequence[ProbeCount], at: PeakEstimate | None
) -> ProbeAt:
    """Return the next rate near the estimate, opposite to the mean of the rates so far.

    If all late pilots are far beyond the peak, there is no estimate: the gap is bisected.
    """
    good, late = _good_and_late(goal, pilots)
    if good and late and min(each.share for each in late) > FAR * goal.share:
        highest, lowest = _highest(good), _lowest(late)
        if lowest > RESOLUTION * highest:
            return probe_at(math.sqrt(highest * lowest), pilot=True)
    if at is None:
        return probe_at(_towards(goal, near if good else pilots), pilot=True)
    middle = math.fsum(each.qps for each in near) / len(near)
    step = _step(at, pilots, near)
    return probe_at(at.qps * (1 + step * (1 if middle < at.qps else -1)), pilot=True)


def _step(at: PeakEstimate, pilots: Sequence[ProbeCount], near: Sequence[ProbeCount]) -> float:
    """Return the distance from the estimate: at most half the way to a pilot far beyond it."""
    step = min(_MOST_STEP, max(_LEAST_STEP, _LOG_SHARE_APART / at.slope))
    beyond = [each.qps for each in pilots if each not in near and each.qps > at.qps]
    if not beyond:
        return step
    return max(_LEAST_STEP, min(step, math.sqrt(min(beyond) / at.qps) - 1))


def _towards(goal: Goal, counted: Sequence[ProbeCount]) -> float:
    """Return a rate beyond all tried so far, on the side where the peak must be.

    The step grows with the number of rates on the wrong side: the server may have changed since
    the peak was located.
    """
    good, late = _good_and_late(goal, counted)
    highest, lowest = _highest(counted), _lowest(counted)
    step = min(2.0, (1 + _FIRST_STEP) ** len({each.qps for each in counted}))
    if not good:
        return lowest / step
    if not late:
        return highest * step
    # Shares that fall with the rate are chance: widen the range of rates.
    wider = 1 + _FIRST_STEP
    return highest * wider if len(counted) % 2 else lowest / wider


def _good_and_late(
    goal: Goal, counted: Sequence[ProbeCount]
) -> tuple[list[ProbeCount], list[ProbeCount]]:
    """Separate probes within the allowed share from those beyond it."""
    good = [each for each in counted if each.share <= goal.share]
    return good, [each for each in counted if each.share > goal.share]


def _highest(counted: Sequence[ProbeCount]) -> float:
    return max(each.qps for each in counted)


def _lowest(counted: Sequence[ProbeCount]) -> float:
    return min(each.qps for each in counted)
