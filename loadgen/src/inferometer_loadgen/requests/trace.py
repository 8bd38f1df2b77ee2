"""Reader of recorded traces: CSV files with one arrival time per line.

Times are in seconds from the start of the window. Messages name lines and quote none: they stand in
the status of a run, whose author may not be allowed to read the file.
"""

import math
from array import array
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from inferometer_loadgen.requests.inputs import InputRefusedError
from inferometer_loadgen.schedule.arrivals import Offsets

MOST_ARRIVALS = 4_000_000
_MOST_BYTES = 32 * MOST_ARRIVALS
_LONGEST_SECONDS = 604_800
_LATEST_SECONDS = 1_000_000_000
"""Before its time scale; every time below it fits into 64 bits of nanoseconds."""
_NS = 1_000_000_000


class TraceRefusedError(InputRefusedError):
    """The trace cannot be replayed; the message is a sentence that names the file and the line."""


def read_times(path: Path) -> Offsets:
    """Return the arrival times of a file in nanoseconds; a time is kept to the nanosecond.

    Raises TraceRefusedError if the file does not exist, is empty or too large, or if a line is not
    a number, below 0, or less than the line before.
    """
    times = array("q")
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise TraceRefusedError(_too_large(path))
        with path.open(encoding="utf-8-sig") as lines:
            for time_ns in _times(path, _bounded(path, lines)):
                times.append(time_ns)
    except OSError as error:
        message = f"The trace {path} cannot be read: {error.strerror}."
        raise TraceRefusedError(message) from error
    except UnicodeDecodeError as error:
        message = f"The trace {path} is not text: it must have one time in seconds a line."
        raise TraceRefusedError(message) from error
    if not times:
        message = f"The trace {path} is empty: it must have one arrival time in seconds a line."
        raise TraceRefusedError(message)
    return np.frombuffer(times, dtype=np.int64)


def scaled_times(path: Path, times: Offsets, milli_time_scale: int) -> Offsets:
    """Return the times of a file, multiplied by a scale in thousandths.

    Raises TraceRefusedError if the last one is beyond the longest scenario.
    """
    # As Python's integers: the product of an array may overflow.
    last_ns = int(times[-1]) * milli_time_scale // 1000
    if last_ns >= _LONGEST_SECONDS * _NS:
        message = (
            f"The trace {path} lasts for {last_ns // _NS} s after its time scale, but a "
            f"scenario at most {_LONGEST_SECONDS} s; times count from the start of the window, so "
            f"take the first from all, or lower timeScale."
        )
        raise TraceRefusedError(message)
    offsets: Offsets = times * milli_time_scale // 1000
    return offsets


def _bounded(path: Path, lines: Iterator[str]) -> Iterator[tuple[int, str]]:
    """Yield each line that is not blank with its number, of a file that is not too large."""
    count = 0
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text:
            continue
        count += 1
        if count > MOST_ARRIVALS:
            raise TraceRefusedError(_too_large(path))
        yield number, text


def _too_large(path: Path) -> str:
    return (
        f"The trace {path} has more than {MOST_ARRIVALS:,} arrivals or {_MOST_BYTES // 10**6} MB, "
        f"which is the most that is kept in memory; cut it into several traces."
    )


def _times(path: Path, lines: Iterator[tuple[int, str]]) -> Iterator[int]:
    last_ns = 0
    for number, text in lines:
        try:
            # Python would also read 1_000 and the digits of other scripts.
            seconds = float(text) if text.isascii() and "_" not in text else math.nan
        except ValueError:
            seconds = math.nan
        if not math.isfinite(seconds):
            message = (
                f"Line {number} of the trace {path} is not a number of "
                f"seconds; a trace has one arrival time a line, without a heading."
            )
            raise TraceRefusedError(message)
        if seconds < 0:
            message = (
                f"Line {number} of the trace {path} is below 0, but times count from the "
                f"start of the window in seconds: subtract the first time from all."
            )
            raise TraceRefusedError(message)
        if seconds >= _LATEST_SECONDS:
            message = (
                f"Line {number} of the trace {path} is too late: a time is below "
                f"{_LATEST_SECONDS:,} s from the start of the window. If the times are times of "
                f"day, subtract the first from all. If they are not seconds, convert them."
            )
            raise TraceRefusedError(message)
        time_ns = round(seconds * _NS)
        if time_ns < last_ns:
            message = (
                f"Line {number} of the trace {path} is before the line above it; sort the times."
            )
            raise TraceRefusedError(message)
        last_ns = time_ns
        yield time_ns
