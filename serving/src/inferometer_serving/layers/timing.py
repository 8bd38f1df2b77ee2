"""Rounds in which bricks, kernels of layers and whole models take turns on this machine."""

import resource
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, islice, pairwise
from math import inf, sqrt
from statistics import median, quantiles
from typing import Any, Protocol

import numpy as np

from inferometer_api.layers.timings import Timing
from inferometer_serving.layers.attempts import Attempt

_GROUP_BYTES = 2 << 30
"""Sessions are open at the same time as long as their tensors take no more than this."""
_FEWEST_RUNS = 2
"""The first run after the cold one is not quite warm yet, unless it is long."""
_LOST_NS, _DISTURBED = 4_000_000, 0.02
"""What losing the CPU once costs at most, and the share of a run that disturbs it."""
_MIXED_BYTES = 4 << 20
"""Bricks take turns run by run until their tensors take so much: more than the cache of a core."""
_TRIES = 3
"""A round makes at most so many times the runs that it wants, to find undisturbed ones."""
_FEWEST_ROUNDS = 3
_MOST_CHARACTERS = 600
"""Of the reason of a failure."""
_NARROW = 0.03
"""An item needs no more rounds once the middle ones differ by less than this..."""
_NARROW_IN_MODEL = 0.02
"""...or once no model's time depends by more than this on where in its interval the median lies."""
_NOTCH = 1.57
"""McGill, Tukey and Larsen, 1978: the median's 95 % interval is this by quartiles and root of n."""

OUT_OF_TIME = "The time budget ended before it was timed."

_Opened = tuple["Item", "Timed"]
Report = Callable[[int, int], None]
"""Takes how many items are done, and of how many."""


class Timed(Protocol):
    """Something that can be run again and again."""

    @property
    def inputs(self) -> tuple[Any, ...]:
        """What it reads anew with each run; weights are not part of it."""

    def run(self) -> object:
        """Run it once."""


@dataclass(slots=True)
class Item:
    """Something to time."""

    name: str
    open: Callable[[], Timed]
    rounds_wanted: int
    bytes: int = 0
    """Of its tensors; 0 for what must take turns with all others of its group."""
    is_mixed: bool = False
    """Whether others run between its runs, as in a model: they leave it the caches as they are
    there, neither warm nor cold. If not, its runs follow each other."""
    needs_all_rounds: bool = False
    """Whether it gets all rounds, also if its times agree earlier."""
    runs_ns: int = 3_000_000
    """How long the runs of one round should last, at least..."""
    most_runs: int = 20
    """...with this many at most."""
    long_ns: int = 50_000_000
    """Of what takes so long, a round needs one run after the cold one..."""
    is_cold_enough: bool = False
    """...or none: the cold run counts, since caches change so long a time by little."""
    settle_ns: int = 0
    """How long it runs in each round before runs count: threads of others may still spin."""
    finish: Callable[[Any, int], None] | None = None
    """Called at the end with what was opened, and how many runs its rounds had."""
    session_ns: int = 0
    runs: int = 0
    failure: str = ""
    cold_ns: list[int] = field(default_factory=list)
    """The first run of each round."""
    middle_ns: list[int] = field(default_factory=list)
    """The median run of each round."""
    round_runs: list[int] = field(default_factory=list)
    """How many runs each round had."""
    disturbed_rounds: int = 0
    """Rounds in which another process took the CPU during every run."""
    share: float = 1.0
    """The largest share that it has in the time of a model."""

    @property
    def is_done(self) -> bool:
        """Whether it needs no more rounds."""
        rounds = len(self.middle_ns)
        if self.failure or rounds >= self.rounds_wanted:
            return True
        if self.needs_all_rounds or rounds < _FEWEST_ROUNDS:
            return False
        times = sorted(self.middle_ns)
        cut = rounds // 4
        range_ns = times[rounds - cut - 1] - times[cut]
        lower, middle, upper = quantiles(times, n=4)
        interval_ns = _NOTCH * (upper - lower) / sqrt(rounds)
        in_model = self.share * interval_ns
        return range_ns <= _NARROW * middle or in_model <= _NARROW_IN_MODEL * middle

    def spread_ns(self, own_ns: Sequence[float] = ()) -> float | None:
        """Return how far the quartiles of the rounds' medians are apart; None with one round.

        `own_ns` are the times of all runs without those of the engine's call; without them, the
        calls count.
        """
        middle: list[float] = [*self.middle_ns]
        if own_ns:
            ends = list(accumulate(self.round_runs))
            middle = [median(own_ns[at:end]) for at, end in pairwise((0, *ends))]
        if len(middle) < 2:
            return None
        lower, _, upper = quantiles(middle, n=4)
        return upper - lower

    def timing(self) -> Timing:
        """Return what its rounds show. Raises StatisticsError without rounds."""
        lower, upper = np.percentile(self.middle_ns, (25, 75))
        return Timing(
            nanoseconds=max(round(median(self.middle_ns)), 1),
            lower_quartile_nanoseconds=round(lower),
            upper_quartile_nanoseconds=round(upper),
            rounds=len(self.middle_ns),
            runs=self.runs,
            cold_nanoseconds=round(median(self.cold_ns)),
            session_nanoseconds=self.session_ns,
        )


def time_items(
    items: Sequence[Item],
    report: Report,
    *,
    uses: Sequence[Mapping[str, int]] = (),
    until_seconds: float = inf,
    attempt: Attempt | None = None,
) -> None:
    """Run all items in rounds until each is done.

    The items of a group take turns, so that whatever disturbs the machine meets all of them, and
    so that an item's weights leave the caches between its turns. `uses` says how often each model
    runs each item, by name: one that is a small part of all models needs fewer rounds. One that
    fails keeps the reason. At `until_seconds` of the monotonic clock the rounds end, and items
    without one fail. Those that crashed an earlier attempt fail at once.
    """
    attempt = attempt or Attempt()
    for each in items:
        each.failure = attempt.crashed.get(each.name, each.failure)

    def report_some() -> None:
        report(sum(each.is_done for each in items), len(items))

    def after_round() -> None:
        _weigh(items, uses)
        report_some()

    for group in _groups(items):
        _time_group(group, after_round, until_seconds, attempt)


def _weigh(items: Sequence[Item], uses: Sequence[Mapping[str, int]]) -> None:
    """Set the share of each item that was timed: its part of what is known of a model's time."""
    times = {each.name: median(each.middle_ns) for each in items if each.middle_ns}
    shares: dict[str, float] = {}
    for model in uses:
        parts = {name: count * times[name] for name, count in model.items() if name in times}
        total = sum(parts.values())
        for name, part in parts.items():
            shares[name] = max(shares.get(name, 0.0), part / total)
    for each in items:
        each.share = shares.get(each.name, 1.0)


def _time_group(
    group: Sequence[Item], after_round: Callable[[], None], until_seconds: float, attempt: Attempt
) -> None:
    opened = []
    for item in group:
        if item.failure:
            continue
        attempt.opening(item.name)
        if (timed := _open(item, until_seconds)) is not None:
            opened.append((item, timed))
    attempt.opening("")
    active = list(opened)
    while active and time.monotonic() < until_seconds:
        for turn in _turns(active):
            rounds = [(item, _round(item, timed)) for item, timed in turn]
            while rounds:
                rounds = [each for each in rounds if _goes_on(*each)]
        after_round()
        active = [each for each in active if not each[0].is_done]
    for item, timed in opened:
        if not item.middle_ns:
            item.failure = item.failure or OUT_OF_TIME
        elif item.finish is not None and not item.failure:
            _try(item, partial(item.finish, timed, item.runs - 1))


def _open(item: Item, until_seconds: float) -> Timed | None:
    if time.monotonic() >= until_seconds:
        item.failure = OUT_OF_TIME
        return None
    began = time.perf_counter_ns()
    found: list[Timed] = []

    def open_and_run() -> None:
        found.append(item.open())
        found[0].run()

    if not _try(item, open_and_run):
        return None
    item.session_ns = time.perf_counter_ns() - began
    item.runs = 1
    return found[0]


def _turns(opened: Sequence[_Opened]) -> Iterator[list[_Opened]]:
    """Yield the items whose runs alternate; those that are not mixed are alone."""
    turn: list[_Opened] = []
    taken = 0
    for each in opened:
        item, _ = each
        if turn and not (item.is_mixed and taken + item.bytes <= _MIXED_BYTES):
            yield turn
            turn, taken = [], 0
        turn.append(each)
        taken += item.bytes if item.is_mixed else _MIXED_BYTES + 1
    if turn:
        yield turn


def _goes_on(item: Item, runs: Iterator[None]) -> bool:
    """Make the next run of a round, and return whether there was one."""
    made: list[None] = []

    def make_next() -> None:
        made.extend(islice(runs, 1))

    return _try(item, make_next) and bool(made)


def _round(item: Item, timed: Timed) -> Iterator[None]:
    """Run an item once with cold weights, and then a few times, always with warm inputs.

    It yields after each run. Runs during which another process took the CPU are repeated: their
    time is not the item's own.
    """
    disturbed: list[int] = []
    undisturbed: list[int] = []
    _read(timed.inputs)
    cold_ns, is_disturbed = _run(timed)
    item.runs += 1
    settled_ns = time.perf_counter_ns() + item.settle_ns
    while time.perf_counter_ns() < settled_ns:
        timed.run()
        item.runs += 1
    yield
    is_long = cold_ns >= item.long_ns
    if is_long and item.is_cold_enough:
        (disturbed if is_disturbed else undisturbed).append(cold_ns)
    fewest = 1 if is_long else _FEWEST_RUNS
    wanted = min(max(item.runs_ns // max(cold_ns, 1), fewest), item.most_runs)
    while len(undisturbed) < wanted and len(undisturbed) + len(disturbed) < _TRIES * wanted:
        if item.is_mixed:
            _read(timed.inputs)
        took_ns, is_disturbed = _run(timed)
        (disturbed if is_disturbed else undisturbed).append(took_ns)
        item.runs += 1
        yield
    item.disturbed_rounds += not undisturbed
    item.round_runs.append(item.runs - sum(item.round_runs) - 1)
    item.cold_ns.append(cold_ns)
    item.middle_ns.append(round(median(undisturbed or disturbed)))


def _read(arrays: Iterable[Any]) -> None:
    """Bring inputs into the caches, where the layer before has just left them in a model."""
    for array in arrays:
        if array.size:
            array.max()


def _try(item: Item, action: Callable[[], None]) -> bool:
    """Do something with an item, and keep the reason if it fails."""
    try:
        action()
    except Exception as error:  # noqa: BLE001 - whatever the engine raises is the answer
        item.failure = " ".join(str(error).split())[:_MOST_CHARACTERS] or type(error).__name__
        return False
    return True


def _run(timed: Timed) -> tuple[int, bool]:
    """Return how many ns a run took, and whether another process took the CPU meanwhile."""
    preemptions, began = _preemptions(), time.perf_counter_ns()
    timed.run()
    took_ns = time.perf_counter_ns() - began
    lost_ns = _LOST_NS * (_preemptions() - preemptions)
    return took_ns, lost_ns > _DISTURBED * took_ns


def _preemptions() -> int:
    """Return how often the kernel took the CPU from this process, which wanted to go on."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


def _groups(items: Sequence[Item]) -> Iterator[list[Item]]:
    group: list[Item] = []
    taken = 0
    for item in items:
        if group and taken + item.bytes > _GROUP_BYTES:
            yield group
            group, taken = [], 0
        group.append(item)
        taken += item.bytes
    if group:
        yield group
