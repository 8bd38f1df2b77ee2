"""With which code does a command end?"""

from enum import IntEnum

from inferometer_api.result import OutcomeState, ResultDocument


class Exit(IntEnum):
    """Exit codes, the same for every command; docs/reference/exit-codes.md explains each."""

    VALID = 0
    """All scenarios VALID, with or without cautions; or the command did what was asked."""
    FAILED = 1
    """Any other fault, before, during or after the load."""
    REFUSED = 2
    """What was asked cannot be run; nothing was measured."""
    INVALID = 3
    """Measured, and at least one scenario is INVALID."""
    INTERRUPTED = 130
    """Ended by Ctrl-C (SIGINT)."""
    TERMINATED = 143
    """Ended by SIGTERM."""


_BY_STATE: dict[OutcomeState, Exit] = {
    "Failed": Exit.FAILED,
    "Refused": Exit.REFUSED,
    "Interrupted": Exit.INTERRUPTED,
    "Terminated": Exit.TERMINATED,
}


def exit_of(document: ResultDocument) -> Exit:
    """Return the exit code that a result stands for."""
    if document.outcome.state != "Complete":
        return _BY_STATE[document.outcome.state]
    return Exit.VALID if document.valid else Exit.INVALID


class RefusedError(Exception):
    """What was asked cannot be run; the message is the sentence that a person reads."""


class FailedError(Exception):
    """What was asked could not be done; the message is the sentence that a person reads."""
