"""A source of GPUs with a deadline, so that a driver that hangs delays nothing else.

NVIDIA's driver may take seconds to wake GPUs, and for ever where one is broken. It is asked in a
thread of its own, which nobody waits for when it does not answer in time.
"""

import threading
from collections.abc import Collection
from queue import SimpleQueue

from inferometer_api.results.agent_sample import MissingSource
from inferometer_telemetry.sources import GpusFound, GpuSource, Owners, Target

PATIENCE_SECONDS = 1.0
"""Less than whoever asks for a sample waits for it."""
_Question = tuple[int, Collection[Target], Owners]


class DeadlineSource:
    """A source of GPUs that always answers, and soon."""

    def __init__(self, gpus: GpuSource, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._gpus = gpus
        self._patience = patience_seconds
        self._questions: SimpleQueue[_Question | None] = SimpleQueue()
        self._answered = threading.Event()
        self._answer: GpusFound | Exception = GpusFound()
        self._is_out = False
        # A daemon: a hanging driver does not keep the agent from its end.
        threading.Thread(target=self._serve, name="gpus", daemon=True).start()

    def read(self, now_ns: int, asked: Collection[Target], owners: Owners) -> GpusFound:
        """Return what the GPUs tell now; all is missing while they do not answer.

        Raises what their source raises.
        """
        if self._is_out and not self._answered.is_set():
            return self._silent()
        self._answered.clear()
        self._is_out = True
        self._questions.put((now_ns, asked, owners))
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
            except Exception as error:  # noqa: BLE001 - it is raised where it was asked
                self._answer = error
            self._answered.set()

    def _silent(self) -> GpusFound:
        reason = f"NVIDIA's driver has not answered within {self._patience:g} s"
        return GpusFound(missing=[MissingSource(source="nvml", reason=reason)])
