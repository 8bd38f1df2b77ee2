"""How is one plan carried out, whoever ends it and whatever happens?"""

import asyncio
import signal
import traceback
from typing import assert_never

from inferometer_api.plan.load_plan import LoadPlan
from inferometer_api.results.result import Outcome
from inferometer_loadgen.reporting.live_metrics import LiveMetrics
from inferometer_loadgen.reporting.report_writer import ReaderGoneError, ReportSink
from inferometer_loadgen.run.session import MeasurementSession

INTERRUPTED = Outcome(state="Interrupted", reason="Interrupted")
TERMINATED = Outcome(state="Terminated", reason="Terminated")


class PlanExecution:
    """Carries out one plan, heeding signals; `stop` ends it too, and keeps what was measured."""

    def __init__(self, plan: LoadPlan, reports: ReportSink) -> None:
        self.live = LiveMetrics(plan)
        """What it shows of its work."""
        self._session = MeasurementSession(plan, reports, self.live)
        self._stopped: Outcome | None = None

    def stop(self, outcome: Outcome) -> None:
        """End it now, as this outcome; only the first call counts."""
        if self._stopped is None:
            self._stopped = outcome
        self._session.interrupt()

    @property
    def first_query_at(self) -> str | None:
        """When the first query was sent: RFC 3339, in UTC; None where none was."""
        return self._session.first_query_at

    async def run(self) -> Outcome:
        """Carry it out and return how it ended. Raises ReaderGoneError, and no other."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self.stop, INTERRUPTED)
        loop.add_signal_handler(signal.SIGTERM, self.stop, TERMINATED)
        try:
            outcome = None if self._stopped else await self._session.run()
        except ReaderGoneError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever happened, the last report must say so
            traceback.print_exc()
            return Outcome(
                state="Failed",
                reason="InternalError",
                message=f"The load generator failed by a fault of its own: {error!r}.",
            )
        if self._stopped is not None:
            return self._stopped
        if outcome is None:
            raise ReaderGoneError("nobody reads the reports any more")
        return outcome


def exit_code(outcome: Outcome) -> int:
    """Return the exit code of an outcome; a verdict does not change it."""
    match outcome.state:
        case "Complete":
            return 0
        case "Failed":
            return 1
        case "Refused":
            return 2
        case "Interrupted":
            return 128 + signal.SIGINT
        case "Terminated":
            return 128 + signal.SIGTERM
        case _:
            assert_never(outcome.state)
