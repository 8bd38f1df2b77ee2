"""With which code does a command end?"""

from enum import IntEnum


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
    SLOWER = 4
    """`inferometer compare --fail-if-slower`: the second result is slower."""
    INTERRUPTED = 130
    """Ended by Ctrl-C (SIGINT)."""
    TERMINATED = 143
    """Ended by SIGTERM."""


class RefusedError(Exception):
    """What was asked cannot be run; the message is the sentence that a person reads."""


class FailedError(Exception):
    """What was asked could not be done; the message is the sentence that a person reads."""
