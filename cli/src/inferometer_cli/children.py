"""How are the processes of a run started, read and stopped, so that none is ever left behind?"""

import asyncio
import contextlib
import ctypes
import os
import signal
from collections import deque
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Self

_PR_SET_PDEATHSIG = 1
_LINE_LIMIT = 64 * 2**20
"""The longest line read from a child: a whole scenario with its histograms and windows."""
_TAIL_LINES = 12
_LAST_WORDS_SECONDS = 0.5
_SECOND_GRACE_SECONDS = 0.2

_libc = ctypes.CDLL(None, use_errno=True)


def _die_with(parent: int) -> None:
    # The kernel ends the child should its parent vanish without a word, as by SIGKILL; and so
    # that a frozen child ends too, not by a signal that it must take up itself.
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


class Child:
    """A running process: lines of its standard output, and the last lines of its standard error."""

    def __init__(self, name: str, process: asyncio.subprocess.Process) -> None:
        self.name = name
        self._process = process
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._reading = asyncio.create_task(self._read_errors())
        self._asked_to_stop = False

    @classmethod
    async def start(
        cls, name: str, arguments: Sequence[str], *, standard_input: bytes | None = None
    ) -> Self:
        """Start a process in a session of its own, so that Ctrl-C reaches only its parent."""
        process = await asyncio.create_subprocess_exec(
            *arguments,
            stdin=asyncio.subprocess.DEVNULL if standard_input is None else asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=_LINE_LIMIT,
            start_new_session=True,
            preexec_fn=partial(_die_with, os.getpid()),
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        if standard_input is not None and process.stdin is not None:
            process.stdin.write(standard_input)
            # Closing sends what is written; a child that has died already is noticed by its end.
            process.stdin.close()
        return cls(name, process)

    @property
    def process_id(self) -> int:
        """The process's id."""
        return self._process.pid

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield each line of the standard output until it closes."""
        stdout = self._process.stdout
        while stdout is not None and (line := await stdout.readline()):
            yield line

    async def ended(self) -> int:
        """Wait until the process has ended and its last words are read; return the exit code."""
        code = await self._process.wait()
        # A grandchild may hold the pipe open; what was said until now is enough.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._reading), timeout=_LAST_WORDS_SECONDS)
        return code

    def last_lines(self) -> str:
        """Return the last lines of the standard error, each on a line of its own."""
        return "\n".join(self._tail)

    def last_line(self) -> str:
        """Return the last line of the standard error that says something."""
        return next((line for line in reversed(self._tail) if line), "")

    def ask_to_stop(self) -> None:
        """Send SIGTERM, if the process still runs."""
        self._asked_to_stop = True
        if self._process.returncode is None:
            # Not Process.send_signal: it may reap the child itself, and its exit code is then lost.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGTERM)

    async def stop(self, *, grace_seconds: float) -> None:
        """End the process and all of its session: by request, then by force."""
        if self._asked_to_stop:
            grace_seconds = _SECOND_GRACE_SECONDS
        self.ask_to_stop()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), timeout=grace_seconds)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self.ended()
        self._reading.cancel()

    async def _read_errors(self) -> None:
        stderr = self._process.stderr
        while stderr is not None:
            try:
                line = await stderr.readline()
            except ValueError:
                # A line beyond the limit: what it says is no sentence for a person.
                continue
            if not line:
                return
            self._tail.append(line.decode(errors="replace").rstrip())


def describe_exit(code: int) -> str:
    """Say in words how a process ended: "exit code 1", "signal SIGKILL"."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"
