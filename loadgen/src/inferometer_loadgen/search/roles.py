"""Roles of the whole probes of a search: pilots, the pilots that lead, and probes that count."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from inferometer_loadgen.search.goal import Goal
from inferometer_loadgen.search.locating import LOCATED
from inferometer_loadgen.search.probes import ProbeResult

RESOLUTION = 1.01
"""Ratio of the bracket's ends at which no more probes are needed."""
FAR = 10
"""Multiple of the allowed share beyond which a probe says little about the peak."""
MOST_PILOTS = 16
LOOKS = (8, 12, 18, 27, 40)
"""Numbers of probes at the two rates after which the search may end. They are few and fixed in
advance: a search that checked after each would end when chance makes its bracket narrow."""
_CLEARLY = ((4, 0, 2.0), (LOOKS[0], 0, 1.0), (LOOKS[0], 4, 2.0))
"""(probes at the two rates, first ones to ignore, factor of the allowed share): if all these probes
are on one side of the peak by that factor, it is not between them, and the server changed."""
LITTLE = 1.05
"""Ratio of rates below which one counts as little above another."""
_MAX_REASSESSED = 20
"""Number of pilots from which the two rates are no longer reassessed."""


@dataclass(frozen=True, slots=True)
class ProbeRoles:
    """The probes that ran to their last query, in order, by role."""

    pilots: tuple[ProbeResult, ...]
    leading: tuple[ProbeResult, ...]
    """Pilots that determine the two rates; later pilots may have contradicted the others."""
    counted: tuple[ProbeResult, ...]
    """Probes that determine the peak."""


def assign_roles(goal: Goal, probes: Sequence[ProbeResult]) -> ProbeRoles:
    """Assign roles to the whole probes.

    A counted probe becomes a pilot if it shows that the two rates are wrong:

    * The first one, if it is far beyond the peak: the pilots have not found the saturation.
    * The first four or eight, if they all (or all but the first of eight) lie on one side of the
      peak: the server's speed changed. Earlier pilots then lead only if they lie on the other side
      of these probes, where the peak must be.
    * All, if a pilot after them keeps the bound at a clearly higher rate. Of the earlier pilots
      only those lead then that lie above it.

    A pilot that a later pilot contradicts leads no longer.
    """
    roles = _Assignment(goal)
    for each in probes:
        if each.probe.runs_to_completion and each.counts.queries:
            roles.take(each)
    return ProbeRoles(tuple(roles.pilots), tuple(roles.leading), tuple(roles.counted))


class _Assignment:
    """The roles so far, while probes are taken in their order."""

    def __init__(self, goal: Goal) -> None:
        self._goal = goal
        self.pilots: list[ProbeResult] = []
        self.leading: list[ProbeResult] = []
        self.counted: list[ProbeResult] = []
        self._has_turned = False
        self._outdated_from = math.inf

    def take(self, result: ProbeResult) -> None:
        """Give the next whole probe its role, and change those of earlier ones."""
        is_too_far = (
            _is_far(self._goal, result) and not self.counted and len(self.pilots) < MOST_PILOTS
        )
        if result.probe.pilot or is_too_far:
            self._take_pilot(result)
            return
        self.counted.append(result)
        leads_up = _leads_up(self._goal, self.counted)
        if leads_up is not None and self._may_reassess:
            # Earlier pilots beyond these may lead once; after a second change, none does.
            beyond = [] if self._has_turned else _beyond(self.leading, self.counted, up=leads_up)
            self._has_turned = True
            self.leading = [*beyond, *self.counted]
            self._drop_counted()

    def _take_pilot(self, result: ProbeResult) -> None:
        if refutes(self._goal, result, self.counted) and self._may_reassess:
            self.leading = _beyond(self.leading, [result], up=True)
            self._drop_counted()
        elif self._may_reassess:
            self.leading = [one for one in self.leading if not _contradict(self._goal, one, result)]
        self.pilots.append(result)
        self.leading.append(result)
        self.leading, self._outdated_from = _without_outdated(
            self._goal, self.leading, self._outdated_from
        )

    def _drop_counted(self) -> None:
        self.pilots += self.counted
        self.counted = []

    @property
    def _may_reassess(self) -> bool:
        return len(self.pilots) < _MAX_REASSESSED


def refutes(goal: Goal, result: ProbeResult, counted: Sequence[ProbeResult]) -> bool:
    """Return whether a probe kept the bound at a rate clearly above all counted ones."""
    highest = max((each.qps for each in counted), default=math.inf)
    return bool(result.within_bound(goal)) and result.qps > LOCATED * highest


def _is_far(goal: Goal, result: ProbeResult) -> bool:
    """Return whether a probe is too far beyond the peak to locate it."""
    return result.counts.share > FAR * goal.share


def _contradict(goal: Goal, one: ProbeResult, other: ProbeResult) -> bool:
    """Return whether a clearly higher rate, not far beyond the peak, had fewer late queries."""
    low, high = sorted((one, other), key=lambda each: each.probe.milli_qps)
    is_clear = high.probe.milli_qps >= LITTLE * low.probe.milli_qps
    more = low.counts.share > max(goal.share, high.counts.share)
    return is_clear and more and not _is_far(goal, high)


def _without_outdated(
    goal: Goal, pilots: list[ProbeResult], outdated_from: float
) -> tuple[list[ProbeResult], float]:
    """Leave out good pilots close to, or above, the last two if both were far beyond the peak.

    Returns the others, and the rate from which pilots were left out. A second time that rate must
    be lower: what saturates there was never faster, so its best rates are kept.
    """
    if len(pilots) < 2 or not all(_is_far(goal, each) for each in pilots[-2:]):
        return pilots, outdated_from
    lowest = min(each.probe.milli_qps for each in pilots[-2:]) / LITTLE
    if lowest * RESOLUTION >= outdated_from:
        return pilots, outdated_from
    left = [each for each in pilots if _is_far(goal, each) or each.probe.milli_qps < lowest]
    return left, lowest if len(left) < len(pilots) else outdated_from


def _leads_up(goal: Goal, probes: Sequence[ProbeResult]) -> bool | None:
    """Return whether the peak is clearly above all these, or below; None if neither is clear."""
    for after, first, factor in _CLEARLY:
        if len(probes) != after:
            continue
        shares = [each.counts.share for each in probes[first:]]
        if max(shares) * factor <= goal.share:
            return True
        if min(shares) > factor * goal.share:
            return False
    return None


def _beyond(
    pilots: Sequence[ProbeResult], probes: Sequence[ProbeResult], *, up: bool
) -> list[ProbeResult]:
    rates = [each.probe.milli_qps for each in probes]
    if up:
        return [each for each in pilots if each.probe.milli_qps > max(rates)]
    return [each for each in pilots if each.probe.milli_qps < min(rates)]
