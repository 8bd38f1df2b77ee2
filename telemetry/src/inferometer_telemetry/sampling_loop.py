"""Takes a regular sample, and reports if the last one is too old."""

import asyncio
import traceback

from inferometer_telemetry.log import log
from inferometer_telemetry.sampler import Latest, Sampler

_LATE_INTERVALS = 5
_LATE_SECONDS = 10.0


class SamplingLoop:
    """The regular samples of an agent."""

    def __init__(self, sampler: Sampler, interval_seconds: float) -> None:
        self._sampler = sampler
        self._interval = interval_seconds
        self._logged: Latest | None = None
        self._taken_at = asyncio.get_running_loop().time()
        self.begun = asyncio.Event()
        """Set once the first sample is taken, whatever became of it."""

    def age_seconds(self) -> float:
        """Return the age of the last regular sample."""
        return asyncio.get_running_loop().time() - self._taken_at

    @property
    def is_late(self) -> bool:
        """Whether samples fail, or are long overdue."""
        return self.age_seconds() > _LATE_SECONDS + _LATE_INTERVALS * self._interval

    async def run(self) -> None:
        """Take a sample at each interval; what fails is logged, and tried again at the next."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            try:
                gauges = await asyncio.to_thread(self._sampler.look)
                self._log_sources(self._sampler.tick(gauges))
                self._taken_at = loop.time()
            except Exception:  # noqa: BLE001 - the agent goes on, and /healthz reports the failure
                log("error", "no sample", exception=traceback.format_exc())
            self.begun.set()
            now = loop.time()
            # What was missed is not made up for.
            due += self._interval * (1 + (now - due) // self._interval)
            await asyncio.sleep(due - now)

    def _log_sources(self, latest: Latest) -> None:
        """Log which sources give figures, at the start and when that changes."""
        before = {} if self._logged is None else self._logged.available
        for source, is_available in latest.available.items():
            if before.get(source) == is_available:
                continue
            reasons = [
                f"{missing.subject}: {missing.reason}" if missing.subject else missing.reason
                for missing in latest.sample.missing
                if missing.source == source
            ]
            log(
                "info",
                "source" if is_available else "no source",
                source=source,
                missing="; ".join(reasons) or "nothing",
            )
        self._logged = latest
