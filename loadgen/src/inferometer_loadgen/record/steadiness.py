"""Is a warm-up steady: are its last three seconds alike?"""

import math
from collections.abc import Sequence

from inferometer_loadgen.record.windows import STEADY_WINDOWS, Tally

STEADY_WITHIN = 0.1
_BY_CHANCE = 3.0
"""Standard deviations by which two numbers of random arrivals differ by chance alone."""


def is_steady(seconds: Sequence[Tally], *, open_loop: bool) -> bool:
    """Tell whether the last three whole seconds of a warm-up differ by less than 10 %.

    In closed loops their answers. In open loops their median latencies and their answers, whose
    number there is the schedule's: random arrivals may differ by as much as is chance.
    """
    if len(seconds) < STEADY_WINDOWS:
        return False
    answers = [each.latencies.total for each in seconds[-STEADY_WINDOWS:]]
    if not open_loop:
        return _alike(answers)
    medians = [each.latencies.at_percentile(50) for each in seconds[-STEADY_WINDOWS:]]
    by_chance = _BY_CHANCE * math.sqrt(2 * max(answers))
    return (
        None not in medians
        and _alike([each or 0 for each in medians])
        and (_alike(answers) or max(answers) - min(answers) <= by_chance)
    )


def _alike(values: Sequence[int]) -> bool:
    return min(values) > 0 and max(values) - min(values) < STEADY_WITHIN * min(values)
