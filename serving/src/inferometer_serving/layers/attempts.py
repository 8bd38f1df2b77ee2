"""Attempts at a measurement, each in a process of its own: a crash of an engine costs one item.

An engine that meets a null pointer ends its whole process, and with it all that was measured.
"""

import ctypes
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

_PR_SET_PDEATHSIG = 1
_CRASHES = frozenset(
    {signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV, signal.SIGTRAP}
)
"""Signals of a process that fails by itself; others come from outside and end the measurement."""
_TOO_LONG = signal.SIGALRM
"""What an attempt gets if it has set an alarm: an engine's own code cannot be interrupted."""


def _ignore(_: str) -> None:
    """Take the name of an item that is opened."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One process of a measurement, which knows what ended the earlier ones."""

    crashed: Mapping[str, str] = field(default_factory=dict)
    """The items that are left out, by name, with the reason."""
    opening: Callable[[str], None] = _ignore
    """Takes the name of an item before it is opened, and an empty name afterwards."""
    began_seconds: float = field(default_factory=time.monotonic)
    """When the first attempt began, by the monotonic clock."""

    def left(self, budget_seconds: float) -> float:
        """Return how much of a budget the attempts have left."""
        return self.began_seconds + budget_seconds - time.monotonic()


def run_attempts(work: Callable[[Attempt], int]) -> int:
    """Do some work in a process of its own, and return its exit code.

    If it crashes while it opens an item, or its alarm rings, it is done once more without this
    item. A process that is killed, or crashes at any other time, ends this one by the same signal.
    The caller must not have used an engine before: its threads do not survive a fork.
    """
    context = multiprocessing.get_context("fork")
    began, crashed, parent = time.monotonic(), dict[str, str](), os.getpid()
    while True:
        ours, theirs = context.Pipe(duplex=False)

        def attempt(theirs: Connection = theirs) -> None:
            _end_with(parent)
            sys.exit(work(Attempt(crashed, theirs.send, began)))

        process = context.Process(target=attempt)
        process.start()
        theirs.close()
        with ours:
            item = _last_opened(ours)
        process.join()
        code = process.exitcode or 0
        if code >= 0:
            return code
        if -code not in {*_CRASHES, _TOO_LONG} or not item:
            os.kill(parent, -code)
        crashed[item] = (
            "It has not ended in time."
            if -code == _TOO_LONG
            else f"It ended the engine's process ({signal.Signals(-code).name})."
        )


def _last_opened(connection: Connection) -> str:
    """Return the last name that came before the other end closed."""
    name = ""
    try:
        while True:
            name = connection.recv()
    except EOFError:
        return name


def _end_with(parent: int) -> None:
    """Let the kernel kill this process when its parent dies."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
