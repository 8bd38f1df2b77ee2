"""The API server's time, as its answers show it.

Times in the API are on the API server's clock, or on that of an operator that uses this one. The
time of the operator's own node is never compared with them.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

CORRECTION: Final = 0.01
"""The largest share of the time since the last correction by which the clock is corrected: a run's
deadline of an hour moves by at most 36 s, however far the API server's clock is set."""
_RESOLUTION_SECONDS = 1.0
"""A `Date` header holds whole seconds."""


def local_time() -> datetime:
    """Return the time of the operator's node, which may be far from the API server's."""
    return datetime.now(UTC)


class ApiServerClock:
    """A monotonic clock that starts at the API server's time and follows it slowly.

    A step of either clock, or an answer from an API server with another time, moves it little.
    """

    def __init__(
        self,
        monotonic: Callable[[], float] = time.monotonic,
        local: Callable[[], datetime] = local_time,
    ) -> None:
        """Start at the local time; the first answer replaces it."""
        self.monotonic = monotonic
        self._offset_seconds = local().timestamp() - monotonic()
        self._corrected_at: float | None = None

    def now(self) -> datetime:
        """Return the time."""
        return datetime.fromtimestamp(self.monotonic() + self._offset_seconds, UTC)

    def hear(self, date: str | None, requested_at: float) -> None:
        """Take in the `Date` header of an answer that came now, requested at a monotonic time."""
        try:
            shown = parsedate_to_datetime(date or "").timestamp()
        except ValueError:
            return
        answered_at = self.monotonic()
        # The server read its clock between the two times, up to a second after the header's time.
        least = shown - answered_at
        most = shown + _RESOLUTION_SECONDS - requested_at
        if self._corrected_at is None:
            self._offset_seconds = (least + most) / 2
            self._corrected_at = answered_at
            return
        reach = CORRECTION * (answered_at - self._corrected_at)
        nearest = min(max(self._offset_seconds, least), most)
        move = min(max(nearest - self._offset_seconds, -reach), reach)
        self._offset_seconds += move
        self._corrected_at = answered_at
