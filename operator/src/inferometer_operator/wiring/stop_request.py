"""The request to a load generator to stop, repeated until it is accepted."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

from inferometer_operator.reconcile.observed import Observed
from inferometer_operator.wiring.plan_executor import PlanExecutor

STOP_REQUEST_SECONDS: Final = 2.0
"""How often it is repeated: the load generator may not listen yet."""
_log = structlog.get_logger()


@dataclass(slots=True)
class StopRequest:
    """Whether the load generator of one run was requested to stop."""

    clock: Callable[[], float]
    is_accepted: bool = False
    _requested_at: float | None = None

    async def request(self, executor: PlanExecutor, pod: str, observed: Observed) -> None:
        """Request the load pod to stop, unless it has accepted or was requested just now."""
        now = self.clock()
        at = self._requested_at
        if not self.is_accepted and (at is None or now >= at + STOP_REQUEST_SECONDS):
            self._requested_at = now
            self.is_accepted = await executor.stop_load(pod, observed)
            if not self.is_accepted:
                _log.warning("stop_request_failed", pod=pod)
