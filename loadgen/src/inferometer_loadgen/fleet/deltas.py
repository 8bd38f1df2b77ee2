"""Deltas of a worker's counters, and their merge into the counters of the fleet.

Counters are moved unchanged, so nothing is lost: the merged figures equal those that one process
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


class PendingSeconds(Windows):
    """The seconds of a step that are over and not sent yet; they are kept nowhere else."""

    def __init__(self) -> None:
        super().__init__()
        self._seconds: list[SecondStatistics] = []

    @override
    def add(self, second: SecondStatistics) -> None:
        self._seconds.append(second)

    @override
    def add_last(self, second: SecondStatistics) -> None:
        self._seconds.append(second)

    def take(self) -> list[SecondStatistics]:
        """Return and forget the seconds since the last call."""
        taken, self._seconds = self._seconds, []
        return taken


class DeltaReader:
    """Reads what a recorder counted since the last read; it takes over the recorder's windows."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._pending = PendingSeconds()
        recorder.statistics.windows = self._pending
        self._warm_up: deque[SecondStatistics] = deque()
        recorder.warm_up_windows = self._warm_up
        self._counts: dict[str, Integers] = {}
        self._sums: dict[str, int] = {}
        self._numbers: dict[str, int] = {}
        self._counters: dict[str, Counter[str]] = {}
        self._texts: dict[str, set[str]] = {}

    def take(self) -> CountDelta:
        """Return what was counted since the last call."""
        self._recorder.flush()
        gained = CountDelta(
            seconds=[_encode_second(second) for second in self._pending.take()],
            warm_up_seconds=[_encode_second(second) for second in self._warm_up],
        )
        self._warm_up.clear()
        statistics = self._recorder.statistics
        for each in fields(StepStatistics):
            self._take(each.name, getattr(statistics, each.name), gained)
        return gained

    def _take(self, name: str, now: object, gained: CountDelta) -> None:
        match now:
            case Windows() | []:  # no mix: a fleet sends none
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
                raise TypeError(f"StepStatistics.{name} has a type that a fleet cannot send.")

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
    """Recorder with the merged counts of all workers.

    The k-th second of the fleet is the k-th of each worker's window, whenever that began.
    """

    def __init__(self, workers: Sequence[int]) -> None:
        super().__init__()
        self._seconds = _SecondMerger(workers)
        self._warm_up = _SecondMerger(workers)

    def add_delta(self, worker: int, gained: CountDelta) -> None:
        """Add what a worker counted."""
        statistics = self.statistics
        for name, counted in gained.histograms.items():
            histogram: Histogram = getattr(statistics, name)
            histogram.add_counted(
                _sparse(counted.buckets, counted.counts),
                counted.sum_ns,
                counted.min_ns,
                counted.max_ns,
            )
        for name, grown in gained.numbers.items():
            setattr(statistics, name, getattr(statistics, name) + grown)
        for name, counts in gained.counters.items():
            getattr(statistics, name).update(counts)
        for name, texts in gained.texts.items():
            known = getattr(statistics, name)
            for key, text in texts.items():
                known.setdefault(key, text)
        self._seconds.add(worker, gained.seconds)
        self._warm_up.add(worker, gained.warm_up_seconds)
        self.warm_up_windows.extend(self._warm_up.combine())

    def leave(self, worker: int) -> None:
        """Expect no more seconds of a worker that ended or is lost."""
        self._seconds.leave(worker)
        self._warm_up.leave(worker)

    def close_seconds(self) -> list[SecondStatistics]:
        """Count and return the seconds that every running worker has sent."""
        found = self._seconds.combine()
        for second in found:
            if second.seconds < 1.0:
                self.statistics.windows.add_last(second)
            else:
                self.last_second = second
                self.statistics.windows.add(second)
        return found


class _SecondMerger:
    """Merges the seconds of workers: the k-th of each into one."""

    def __init__(self, workers: Sequence[int]) -> None:
        self._received: dict[int, deque[SecondStatistics]] = {worker: deque() for worker in workers}
        self._running = set(workers)
        self._awaited = set(workers)
        """Running workers that have not sent the next second."""

    def add(self, worker: int, deltas: Sequence[SecondDelta]) -> None:
        if deltas:
            self._received[worker].extend(map(_decode_second, deltas))
            self._awaited.discard(worker)

    def leave(self, worker: int) -> None:
        self._running.discard(worker)
        self._awaited.discard(worker)

    def combine(self) -> list[SecondStatistics]:
        """Remove and return the seconds that are complete."""
        found: list[SecondStatistics] = []
        while not self._awaited:
            parts = [queue.popleft() for queue in self._received.values() if queue]
            if not parts:
                return found
            found.append(_merge(parts))
            self._awaited = {worker for worker in self._running if not self._received[worker]}
        return found


def _merge(parts: Sequence[SecondStatistics]) -> SecondStatistics:
    """Return the sum of the same second of several workers."""
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


def _encode_second(second: SecondStatistics) -> SecondDelta:
    return SecondDelta(
        second.seconds,
        second.scheduled,
        second.failed,
        second.max_ns,
        second.latencies.buckets.tolist(),
        second.latencies.counts.tolist(),
    )


def _decode_second(delta: SecondDelta) -> SecondStatistics:
    latencies = _sparse(delta.buckets, delta.counts)
    return SecondStatistics(delta.seconds, delta.scheduled, delta.failed, delta.max_ns, latencies)


def _sparse(buckets: Sequence[int], counts: Sequence[int]) -> Sparse:
    return Sparse(np.array(buckets, dtype=np.int64), np.array(counts, dtype=np.int64))
