"""A source of GPUs with a deadline, so that a driver that hangs delays nothing else.

NVIDIA's driver may take seconds to wake GPUs, and never answers if one is broken. A thread of its
own calls it, and a reading does not wait for the thread longer than the deadline.
"""

import threading
from collections.abc import Collection
from queue import SimpleQueue

from inferometer_api.results.agent_sample import MissingSource
from inferometer_telemetry.sources import GpuSource, GpuSourceReading, Owners, Target

PATIENCE_SECONDS = 1.0
"""Shorter than the time that a client waits for a sample."""
_Question = tuple[int, Collection[Target], Owners]


class DeadlineSource:
    """A source of GPUs that always answers within the deadline."""

    def __init__(self, gpus: GpuSource, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._gpus = gpus
        self._patience = patience_seconds
        self._questions: SimpleQueue[_Question | None] = SimpleQueue()
        self._answered = threading.Event()
        self._answer: GpuSourceReading | Exception = GpuSourceReading()
        self._is_out = False
        # A daemon: a hanging driver does not keep the agent from its end.
        threading.Thread(target=self._serve, name="gpus", daemon=True).start()

    def read(self, now_ns: int, requested: Collection[Target], owners: Owners) -> GpuSourceReading:
        """Return a reading; everything is missing while the driver does not answer.

        Raises the exceptions of the source.
        """
        if self._is_out and not self._answered.is_set():
            return self._silent()
        self._answered.clear()
        self._is_out = True
        self._questions.put((now_ns, requested, owners))
        if not self._answered.wait(self._patience):
            return self._silent()
        self._is_out = False
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    def close(self) -> None:
        """Let go of the library, unless it hangs."""
        if not self._is_out or self._answered.is_set():
            self._gpus.close()
        self._questions.put(None)

    def _serve(self) -> None:
        while (question := self._questions.get()) is not None:
            try:
                self._answer = self._gpus.read(*question)
            except Exception as error:  # noqa: BLE001 - `read` raises it
                self._answer = error
            self._answered.set()

    def _silent(self) -> GpuSourceReading:
        reason = f"NVIDIA's driver has not answered within {self._patience:g} s"
        return GpuSourceReading(missing=[MissingSource(source="nvml", reason=reason)])
