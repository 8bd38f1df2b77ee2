"""Tables of errors: how each ends a run, and what it cuts short."""

import asyncio
from collections.abc import Mapping

from inferometer_api.results.result import Outcome, OutcomeState
from inferometer_loadgen.drive.first_requests import FirstRequestsRefusedError, NoAnswerError
from inferometer_loadgen.fleet.answers import WorkerLostError
from inferometer_loadgen.fleet.fleet import FleetNotReadyError
from inferometer_loadgen.requests.inputs import InputRefusedError
from inferometer_loadgen.run.executor import StepEnd
from inferometer_loadgen.schedule.steps import End
from inferometer_loadgen.server.control_calls import RedirectedError
from inferometer_loadgen.server.refusals import (
    AccessDeniedError,
    ModelNotServedError,
    ProtocolMismatchError,
    ServerNotReadyError,
)
from inferometer_loadgen.wire import ConnectionFailedError
from inferometer_loadgen.wire.tls import TlsRefusedError
from inferometer_tasks.errors import TaskRefusedError


class NotAvailableError(ValueError):
    """The plan needs what this version does not support; the message says what."""


_OUTCOMES: Mapping[type[Exception], tuple[OutcomeState, str]] = {
    NotAvailableError: ("Refused", "NotAvailable"),
    InputRefusedError: ("Refused", "InputRefused"),
    TaskRefusedError: ("Refused", "TaskRefused"),
    ModelNotServedError: ("Refused", "ModelRefused"),
    ProtocolMismatchError: ("Refused", "ProtocolMismatch"),
    AccessDeniedError: ("Refused", "AccessDenied"),
    RedirectedError: ("Refused", "Redirected"),
    TlsRefusedError: ("Refused", "TlsRefused"),
    FirstRequestsRefusedError: ("Refused", "RequestRefused"),
    ServerNotReadyError: ("Failed", "ServerNotReady"),
    NoAnswerError: ("Failed", "NoAnswer"),
    ConnectionFailedError: ("Failed", "ServerLost"),
    FleetNotReadyError: ("Failed", "WorkersNotReady"),
    WorkerLostError: ("Failed", "WorkerLost"),
}
_CUTS_SHORT: Mapping[type[BaseException], End] = {
    asyncio.CancelledError: End.INTERRUPTED,
    ConnectionFailedError: End.SERVER_LOST,
    WorkerLostError: End.WORKER_LOST,
}

FAULTS = tuple(_OUTCOMES)
"""The errors that have an outcome; any other is an internal error."""


def outcome_of(fault: Exception) -> Outcome:
    """Return the outcome of a run that raised one of FAULTS."""
    state, reason = next(_OUTCOMES[kind] for kind in FAULTS if isinstance(fault, kind))
    return Outcome(state=state, reason=reason, message=str(fault))


def cut_short_by(error: BaseException) -> End:
    """Return the end of a scenario that raised an error."""
    return next((end for kind, end in _CUTS_SHORT.items() if isinstance(error, kind)), End.FAILED)


def lost_outcome(
    end: StepEnd, addresses: str, reconnect_deadline_seconds: int, *, is_last: bool
) -> Outcome | None:
    """Return the outcome of a run whose scenario lost its server or a worker; None if it goes on.

    `addresses` names the servers. A worker that was lost in the last scenario only makes that
    scenario INVALID.
    """
    if end.why is End.SERVER_LOST:
        message = (
            f"{addresses} was lost: no connection could be made for "
            f"{reconnect_deadline_seconds} s (load.reconnectDeadlineSeconds). "
            f"{end.trouble and f'{end.trouble} '}What was measured until then is kept."
        )
        return Outcome(state="Failed", reason="ServerLost", message=message)
    if end.why is End.WORKER_LOST and not is_last:
        return Outcome(state="Failed", reason="WorkerLost", message=end.trouble)
    return None
