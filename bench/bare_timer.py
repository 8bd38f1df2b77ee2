"""Baseline pacer: a loop that only sleeps on a timerfd and reads the clock.

It takes the same arrivals as the load generator, and does nothing at them. For each line of JSON
on standard input, {"seconds": ..., "qps": ...}, it answers one line.
"""

import ctypes
import json
import os
import struct
import sys
import time

import numpy as np

from inferometer_loadgen.schedule.arrivals import Stream, arrivals

_ABSOLUTE = 1
_libc = ctypes.CDLL(None)


def lags_ns(offsets_ns: list[int]) -> list[int]:
    """Sleep until each time from now on, and return by how much each sleep was too long."""
    descriptor = _libc.timerfd_create(time.CLOCK_MONOTONIC, os.O_CLOEXEC)
    begin = time.monotonic_ns() + 1_000_000
    lags = []
    try:
        for offset in offsets_ns:
            due = begin + offset
            value = ctypes.create_string_buffer(struct.pack("=4q", 0, 0, *divmod(due, 10**9)))
            _libc.timerfd_settime(descriptor, _ABSOLUTE, value, None)
            os.read(descriptor, 8)
            lags.append(time.monotonic_ns() - due)
    finally:
        os.close(descriptor)
    return lags


def main() -> None:
    """Answer until standard input ends."""
    for line in sys.stdin:
        request = json.loads(line)
        schedule = arrivals("Poisson", 1000 * request["qps"], 42, Stream.MEASURED)
        lags = lags_ns(schedule.take(round(request["seconds"] * request["qps"])).tolist())
        p50, p99 = np.percentile(lags, [50, 99]) / 1e9
        print(json.dumps({"p50Seconds": p50, "p99Seconds": p99}), flush=True)


if __name__ == "__main__":
    main()
