"""Merged counts of a fleet's workers equal those of one process exactly."""

from collections.abc import Sequence
from dataclasses import fields

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from inferometer_loadgen.fleet.deltas import DeltaReader, MergedRecorder
from inferometer_loadgen.fleet.messages import WORKER_MESSAGES, CountDelta, WorkerProgress
from inferometer_loadgen.record.histogram import Histogram
from inferometer_loadgen.record.recorder import Recorder, StepStatistics
from inferometer_loadgen.schedule.steps import End

BOUND_NS = 5_000_000

_TIMES = st.lists(st.integers(0, 10**10), max_size=6)
_SECONDS = st.lists(
    st.tuples(_TIMES, st.lists(st.sampled_from(["timeout", "status"]), max_size=2)), max_size=4
)


def _fill(recorder: Recorder, times: Sequence[int], failures: Sequence[str]) -> None:
    for time in times:
        recorder.latencies.append(time)
        recorder.service_times.append(time // 2)
        recorder.lags.append(time // 100)
    for kind in failures:
        recorder.fail(kind, f"a {kind}")
    recorder.statistics.checked_replies += len(times)


def _over_the_wire(gained: CountDelta) -> CountDelta:
    """Encode and decode a delta as the fleet does."""
    report = WorkerProgress(
        "measuring", gained, 0, None, 0, [], 0, 0, 0, 0, 0.0, False, 0.0, 0, end=End.DONE
    )
    read = WORKER_MESSAGES.validate_json(WORKER_MESSAGES.dump_json(report))
    assert isinstance(read, WorkerProgress)
    return read.gained


@settings(max_examples=60)
@given(workers=st.lists(_SECONDS, min_size=1, max_size=4), often=st.booleans())
def test_merged_counts_are_those_of_one_process(
    *, workers: list[list[tuple[list[int], list[str]]]], often: bool
) -> None:
    """Histograms, windows, errors and counts are equal, however they were split and sent."""
    one = Recorder(BOUND_NS)
    for place in range(max(map(len, workers))):
        for worker in workers:
            if place < len(worker):
                _fill(one, *worker[place])
        one.end_second()
    one.end(0.25)

    merged = MergedRecorder(range(len(workers)))
    for number, worker in enumerate(workers):
        recorder = Recorder(BOUND_NS)
        gains = DeltaReader(recorder)
        for second in worker:
            _fill(recorder, *second)
            if often:
                merged.add_delta(number, _over_the_wire(gains.take()))
            recorder.end_second()
        if len(worker) == max(map(len, workers)):
            recorder.end(0.25)
        merged.add_delta(number, _over_the_wire(gains.take()))
        merged.leave(number)
    merged.close_seconds()
    _assert_equal(merged.statistics, one.statistics)


def _assert_equal(found: StepStatistics, expected: StepStatistics) -> None:
    for each in fields(StepStatistics):
        left, right = getattr(found, each.name), getattr(expected, each.name)
        if isinstance(left, Histogram):
            assert left.encode() == right.encode(), each.name
            assert (left.count, left.sum_ns) == (right.count, right.sum_ns), each.name
            assert (left.min_ns, left.max_ns) == (right.min_ns, right.max_ns), each.name
        elif each.name == "windows":
            assert left.report(open_loop=True) == right.report(open_loop=True)
        else:
            assert left == right, each.name


def test_answers_within_the_window_are_sent_before_its_end() -> None:
    """A lost worker's answers until its last report count; answers after its window do not."""
    recorder = Recorder()
    gains, merged = DeltaReader(recorder), MergedRecorder([0])
    recorder.statistics.warm_up_answered = 7
    found = []
    for act in (recorder.begin_window, lambda: None, recorder.end_window, lambda: None):
        act()
        merged.add_delta(0, _over_the_wire(gains.take()))
        found.append(merged.statistics.answered_within)
        recorder.latencies.extend([1, 2, 3])
    assert found == [0, 3, 6, 6]


def test_a_second_is_complete_when_every_running_worker_sent_it() -> None:
    """A worker that has ended is no longer awaited."""
    merged = MergedRecorder([0, 1])
    recorders = [Recorder(), Recorder()]
    gains = [DeltaReader(recorder) for recorder in recorders]
    recorders[0].latencies.append(1_000)
    recorders[0].end_second()
    merged.add_delta(0, gains[0].take())
    assert merged.close_seconds() == []
    assert merged.answered == 1  # counts are not held back
    recorders[1].latencies.append(2_000)
    recorders[1].end_second()
    recorders[1].latencies.append(3_000)
    recorders[1].end_second()
    merged.add_delta(1, gains[1].take())
    assert [second.latencies.total for second in merged.close_seconds()] == [2]
    merged.leave(0)
    assert [second.latencies.total for second in merged.close_seconds()] == [1]
    assert merged.last_second is not None
    assert merged.last_second.latencies.total == 1


def test_warm_up_seconds_are_merged_too() -> None:
    """Merged warm-up seconds show when a fleet's warm-up is steady."""
    merged = MergedRecorder([0, 1])
    for number, times in enumerate(([1_000, 2_000], [3_000])):
        recorder = Recorder()
        gains = DeltaReader(recorder)
        recorder.warm_ups.extend(times)
        recorder.end_warm_up_second()
        merged.add_delta(number, _over_the_wire(gains.take()))
    assert [second.latencies.total for second in merged.warm_up_windows] == [3]
    assert np.all(merged.warm_up_windows[0].latencies.counts == 1)
