"""What has a worker counted since it last told, and what do all workers' counts come to?

Counters are moved as they are, so that nothing is lost: what is merged equals what one process
would have counted.
"""

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import fields

import numpy as np
from typing_extensions import override

from inferometer_loadgen.fleet.messages import CountDelta, HistogramDelta, SecondDelta
from inferometer_loadgen.record.histogram import BUCKETS, Histogram, Integers, Sparse
from inferometer_loadgen.record.recorder import Recorder, StepStatistics
from inferometer_loadgen.record.windows import SecondStatistics, Windows


class Outbox(Windows):
    """The seconds of a step that are over and not told yet; they are kept nowhere else."""

    def __init__(self) -> None:
        super().__init__()
        self._tallies: list[SecondStatistics] = []

    @override
    def add(self, tally: SecondStatistics) -> None:
        self._tallies.append(tally)

    @override
    def add_last(self, tally: SecondStatistics) -> None:
        self._tallies.append(tally)

    def emptied(self) -> list[SecondStatistics]:
        """Return the seconds since the last time."""
        told, self._tallies = self._tallies, []
        return told


class DeltaReader:
    """Tells what was counted since it last did; the recorder's windows go to it alone."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._outbox = Outbox()
        recorder.statistics.windows = self._outbox
        self._warm_up: deque[SecondStatistics] = deque()
        recorder.warm_up_windows = self._warm_up
        self._counts: dict[str, Integers] = {}
        self._sums: dict[str, int] = {}
        self._numbers: dict[str, int] = {}
        self._counters: dict[str, Counter[str]] = {}
        self._texts: dict[str, set[str]] = {}

    def take(self) -> CountDelta:
        """Return what was gained since the last time."""
        self._recorder.flush()
        gained = CountDelta(
            seconds=[_told(tally) for tally in self._outbox.emptied()],
            warm_up_seconds=[_told(tally) for tally in self._warm_up],
        )
        self._warm_up.clear()
        tallied = self._recorder.statistics
        for each in fields(StepStatistics):
            self._take(each.name, getattr(tallied, each.name), gained)
        return gained

    def _take(self, name: str, now: object, gained: CountDelta) -> None:
        match now:
            case Windows():
                return
            case Histogram():
                self._take_histogram(name, now, gained)
            case None:
                return
            case int():
                if grown := now - self._numbers.get(name, 0):
                    gained.numbers[name] = grown
                self._numbers[name] = now
            case Counter():
                if more := now - self._counters.get(name, Counter()):
                    gained.counters[name] = dict(more)
                self._counters[name] = Counter(now)
            case dict():
                known = self._texts.setdefault(name, set())
                if new := {key: text for key, text in now.items() if key not in known}:
                    gained.texts[name] = new
                    known.update(new)
            case _:
                raise TypeError(f"A fleet does not know how to tell StepStatistics.{name}.")

    def _take_histogram(self, name: str, now: Histogram, gained: CountDelta) -> None:
        known = self._counts.get(name)
        if known is None:
            known = self._counts[name] = np.zeros(BUCKETS, dtype=np.int64)
        grown = now.gained_since(known)
        if not len(grown.counts):
            return
        gained.histograms[name] = HistogramDelta(
            grown.buckets.tolist(),
            grown.counts.tolist(),
            now.sum_ns - self._sums.get(name, 0),
            now.min_ns,
            now.max_ns,
        )
        self._sums[name] = now.sum_ns


class MergedRecorder(Recorder):
    """What came of the queries of all workers so far.

    The k-th second of the fleet is the k-th of each worker's window, whenever that began.
    """

    def __init__(self, workers: Sequence[int]) -> None:
        super().__init__()
        self._seconds = _Seconds(workers)
        self._warm_up = _Seconds(workers)

    def absorb(self, worker: int, gained: CountDelta) -> None:
        """Count what a worker gained."""
        tallied = self.statistics
        for name, counted in gained.histograms.items():
            histogram: Histogram = getattr(tallied, name)
            histogram.add_counted(
                _sparse(counted.buckets, counted.counts),
                counted.sum_ns,
                counted.min_ns,
                counted.max_ns,
            )
        for name, grown in gained.numbers.items():
            setattr(tallied, name, getattr(tallied, name) + grown)
        for name, counts in gained.counters.items():
            getattr(tallied, name).update(counts)
        for name, texts in gained.texts.items():
            known = getattr(tallied, name)
            for key, text in texts.items():
                known.setdefault(key, text)
        self._seconds.on_message(worker, gained.seconds)
        self._warm_up.on_message(worker, gained.warm_up_seconds)
        self.warm_up_windows.extend(self._warm_up.combine())

    def leave(self, worker: int) -> None:
        """Wait for no more seconds of a worker: it has ended, or is lost."""
        self._seconds.leave(worker)
        self._warm_up.leave(worker)

    def close_seconds(self) -> list[SecondStatistics]:
        """Count and return the seconds that every worker has told; whoever ended has no more."""
        found = self._seconds.combine()
        for second in found:
            if second.seconds < 1.0:
                self.statistics.windows.add_last(second)
            else:
                self.last_second = second
                self.statistics.windows.add(second)
        return found


class _Seconds:
    """Seconds as workers tell them, the first of each being the same one."""

    def __init__(self, workers: Sequence[int]) -> None:
        self._told: dict[int, deque[SecondStatistics]] = {worker: deque() for worker in workers}
        self._going = set(workers)
        self._awaited = set(workers)
        """Those going that have not told the next second."""

    def on_message(self, worker: int, told: Sequence[SecondDelta]) -> None:
        if told:
            self._told[worker].extend(map(_tally, told))
            self._awaited.discard(worker)

    def leave(self, worker: int) -> None:
        self._going.discard(worker)
        self._awaited.discard(worker)

    def combine(self) -> list[SecondStatistics]:
        """Remove and return those seconds that nobody will add anything to."""
        found: list[SecondStatistics] = []
        while not self._awaited:
            parts = [told.popleft() for told in self._told.values() if told]
            if not parts:
                return found
            found.append(_joined(parts))
            self._awaited = {worker for worker in self._going if not self._told[worker]}
        return found


def _joined(parts: Sequence[SecondStatistics]) -> SecondStatistics:
    """Return what happened within the same second."""
    joined = parts[0]
    for part in parts[1:]:
        joined = joined.combine(part)
    return SecondStatistics(
        max(part.seconds for part in parts),
        joined.scheduled,
        joined.failed,
        joined.max_ns,
        joined.latencies,
    )


def _told(tally: SecondStatistics) -> SecondDelta:
    return SecondDelta(
        tally.seconds,
        tally.scheduled,
        tally.failed,
        tally.max_ns,
        tally.latencies.buckets.tolist(),
        tally.latencies.counts.tolist(),
    )


def _tally(told: SecondDelta) -> SecondStatistics:
    latencies = _sparse(told.buckets, told.counts)
    return SecondStatistics(told.seconds, told.scheduled, told.failed, told.max_ns, latencies)


def _sparse(buckets: Sequence[int], counts: Sequence[int]) -> Sparse:
    return Sparse(np.array(buckets, dtype=np.int64), np.array(counts, dtype=np.int64))
