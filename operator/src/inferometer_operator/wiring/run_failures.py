"""Failures of a run's reconciliation: pauses that grow, and when the run is aborted."""

import traceback
from dataclasses import dataclass
from typing import Any, Final

from inferometer_operator.cluster.errors import ApiError, ApiUnreachableError

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.5, 30.0
_MAX_INTERNAL_ERRORS: Final = 6
"""Internal errors at one place in a row, over half a minute, before the run is aborted."""


@dataclass(slots=True)
class RunFailures:
    """Failures of one run in a row, of requests and of the operator itself."""

    log: Any
    count: int = 0
    _place: object = None
    """Type and place of the last internal error."""
    _internal_errors: int = 0

    def clear(self) -> None:
        """Take in a success."""
        self.count = self._internal_errors = 0

    def note_request(self, error: ApiError | ApiUnreachableError) -> float:
        """Take in a request that failed; return in how many seconds to reconcile again."""
        self.count += 1
        retry_after = error.retry_after_seconds if isinstance(error, ApiError) else None
        pause = max(retry_after or 0.0, self.pause_seconds)
        if isinstance(error, ApiError) and error.conflict:
            self.log.info("conflict", error=str(error), retry_in_seconds=pause)
        else:
            self.log.warning("api_request_failed", error=str(error), retry_in_seconds=pause)
        return pause

    def note_internal(self, error: Exception) -> bool:
        """Take in an internal error; return whether to abort the run.

        An error at another place, or of another type, is another one: the first may have passed.
        """
        self.count += 1
        place = traceback.extract_tb(error.__traceback__)[-1]
        key = (type(error), place.filename, place.lineno)
        self._internal_errors = self._internal_errors + 1 if key == self._place else 1
        self._place = key
        self.log.error("reconcile_failed", failures=self._internal_errors, exc_info=error)
        return self._internal_errors >= _MAX_INTERNAL_ERRORS

    @property
    def pause_seconds(self) -> float:
        """The pause after the last failure: it doubles with each one."""
        pause: float = _FIRST_PAUSE_SECONDS * 2 ** min(self.count - 1, 10)
        return min(pause, _LONGEST_PAUSE_SECONDS)
