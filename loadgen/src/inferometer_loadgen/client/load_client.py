"""Resources that the client itself uses while it drives a step."""

import os
import time
from pathlib import Path
from typing import Protocol

from inferometer_api.results.result import ClientHealth
from inferometer_loadgen.client.wake_ups import WakeUps
from inferometer_loadgen.client.watch import ClientWatch

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class LoadClient(Protocol):
    """The process that drives a step, or the workers of a fleet together."""

    def begin(self) -> None:
        """Count from now on."""

    def second(self) -> None:
        """Check the clocks; called once a second."""

    def cpu_seconds(self) -> float:
        """Return the CPU seconds, user and system, since it began."""

    def memory_bytes(self) -> int:
        """Return the resident memory."""

    def facts(self) -> ClientHealth:
        """Return its health since it began, once; of several processes the worst figures."""


class OwnProcess:
    """This process as the client.

    With `wakes` a timer measures how late it gets its CPU; that needs a running event loop.
    """

    def __init__(self, *, wakes: bool = False) -> None:
        self._wakes = wakes
        self._watch = ClientWatch()
        self._wake_ups: WakeUps | None = None
        self._begin = time.process_time()

    def begin(self) -> None:
        """Start the measurement of the load generator itself."""
        self._watch.begin()
        self.close()
        self._wake_ups = WakeUps() if self._wakes else None
        self._begin = time.process_time()

    def close(self) -> None:
        """Stop the timer; facts that were not read by now are lost."""
        if self._wake_ups is not None:
            self._wake_ups.end()
            self._wake_ups = None

    def second(self) -> None:
        """Record the figures of the past second."""
        self._watch.second()

    def cpu_seconds(self) -> float:
        """Return the CPU seconds used since the measurement began."""
        return time.process_time() - self._begin

    def memory_bytes(self) -> int:
        """Return the resident memory in bytes."""
        return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES

    def facts(self) -> ClientHealth:
        """Return how healthy the load generator was."""
        usual_ns, most_ns = (None, None) if self._wake_ups is None else self._wake_ups.end()
        return self._watch.facts().model_copy(
            update={"wake_up_lag_nanoseconds": usual_ns, "wake_up_lag_max_nanoseconds": most_ns}
        )
