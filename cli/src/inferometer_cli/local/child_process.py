"""Child processes of a local run: started, read and stopped so that none outlives the command."""

import asyncio
import contextlib
import ctypes
import os
import re
import signal
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Self

from inferometer_cli.exits import ExitCode, FailedError, RefusedError

GRACE_SECONDS = 1.0
"""How long a child may take to stop after SIGTERM."""
_REFUSED, _FAILED = "refused: ", "failed: "
"""Prefixes of the last line in which a child process explains its exit code."""
_PR_SET_PDEATHSIG = 1
_PYTHON = {"PYTHONSAFEPATH": "1", "PYTHONUNBUFFERED": "1"}
"""For children in Python: no file of the current folder takes the place of a module."""
_LINE_LIMIT = 2**30
"""The longest line read from a child: a whole result document."""
_TAIL_LINES = 12
_ERROR_LINES = 4
_ERROR = re.compile(r"\berror\b|Error\b|Exception\b|^E\d{4} ", re.IGNORECASE)
"""Lines of a log that explain an end better than what a server prints while it ends."""
_LAST_OUTPUT_SECONDS = 0.5
_SECOND_GRACE_SECONDS = 0.2

_libc = ctypes.CDLL(None, use_errno=True)


def _die_with(parent: int) -> None:
    # The kernel kills the child if its parent is killed. SIGKILL also ends a stopped child, which
    # would not handle any other signal.
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


class ChildProcess:
    """A running process, its standard output by lines and the end of its log."""

    def __init__(
        self,
        name: str,
        process: asyncio.subprocess.Process,
        *,
        logs: Sequence[asyncio.StreamReader | None],
    ) -> None:
        self.name = name
        self._process = process
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._errors: deque[str] = deque(maxlen=_ERROR_LINES)
        """Errors that are no longer in the tail."""
        self._reading = asyncio.gather(*map(self._read_log, logs))
        self._stop_requested = False

    @classmethod
    async def start(
        cls,
        name: str,
        arguments: Sequence[str],
        *,
        standard_input: bytes | None = None,
        env: Mapping[str, str] | None = None,
        logs_to_output: bool = False,
    ) -> Self:
        """Start a process in its own session, so that Ctrl-C reaches only its parent.

        `env` is added to the environment. The log is the standard error, and with `logs_to_output`
        the standard output too, which then has no `lines`.
        """
        process = await asyncio.create_subprocess_exec(
            *arguments,
            stdin=asyncio.subprocess.DEVNULL if standard_input is None else asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=_LINE_LIMIT,
            start_new_session=True,
            preexec_fn=partial(_die_with, os.getpid()),
            env={**os.environ, **_PYTHON, **(env or {})},
        )
        if standard_input is not None and process.stdin is not None:
            process.stdin.write(standard_input)
            # Closing flushes the input. If the child is dead already, its exit code says so.
            process.stdin.close()
        logs = (process.stderr, process.stdout) if logs_to_output else (process.stderr,)
        return cls(name, process, logs=logs)

    @property
    def process_id(self) -> int:
        """The process's id."""
        return self._process.pid

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield each line of the standard output until it closes."""
        stdout = self._process.stdout
        while stdout is not None and (line := await stdout.readline()):
            yield line

    async def wait(self) -> int:
        """Wait until the process has ended and its output is read; return its exit code."""
        code = await self._process.wait()
        # A grandchild may hold the pipe open; what was printed so far is enough.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._reading), timeout=_LAST_OUTPUT_SECONDS)
        return code

    def last_lines(self) -> str:
        """Return the last lines of the log, and before them the last errors."""
        return "\n".join([*self._errors, *self._tail])

    def last_line(self) -> str:
        """Return the last line of the log that is not empty."""
        return next((line for line in reversed(self._tail) if line), "")

    def request_stop(self) -> None:
        """Send SIGTERM if the process is still running."""
        self._stop_requested = True
        if self._process.returncode is None:
            # Process.send_signal may reap the child itself, and then its exit code is lost.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGTERM)

    async def stop(self, *, grace_seconds: float) -> None:
        """Stop the process with SIGTERM, then kill what is left of its session."""
        if self._stop_requested:
            grace_seconds = _SECOND_GRACE_SECONDS
        self.request_stop()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), timeout=grace_seconds)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self.wait()
        self._reading.cancel()

    async def _read_log(self, output: asyncio.StreamReader | None) -> None:
        while output is not None:
            try:
                line = await output.readline()
            except ValueError:
                # A line beyond the limit is not meant for people.
                continue
            if not line:
                return
            if len(self._tail) == _TAIL_LINES and _ERROR.search(self._tail[0]):
                self._errors.append(self._tail[0])
            self._tail.append(line.decode(errors="replace").rstrip())


def describe_exit(code: int) -> str:
    """Return how a process ended, in words: "exit code 1", "signal SIGKILL"."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"


async def start_child(
    name: str,
    command: Sequence[str],
    stack: AsyncExitStack,
    standard_input: bytes | None = None,
    *,
    env: Mapping[str, str] | None = None,
    grace_seconds: float = GRACE_SECONDS,
) -> ChildProcess:
    """Start a child that ends with the stack: by SIGTERM, then after its grace by SIGKILL.

    `env` is added to the environment.
    """
    child = await ChildProcess.start(name, command, standard_input=standard_input, env=env)
    stack.push_async_callback(child.stop, grace_seconds=grace_seconds)
    return child


async def output_document(
    name: str,
    command: Sequence[str],
    watch: Callable[[bytes], None] = lambda _: None,
    *,
    env: Mapping[str, str] | None = None,
) -> bytes:
    """Run a child to its end; return the last line of its output, which is its document.

    `watch` gets every line, and `env` is added to the environment. Raises RefusedError if the child
    refuses its work, and FailedError if it ends early.
    """
    child = await ChildProcess.start(name, command, env=env)
    last = b""
    try:
        async for line in child.lines():
            last = line
            watch(line)
        code = await child.wait()
    finally:
        await child.stop(grace_seconds=GRACE_SECONDS)
    if refusal := refusal_of(child, code):
        raise RefusedError(refusal)
    if code:
        sentence = f"The {name} ended early ({describe_exit(code)})."
        raise FailedError(with_last_output(sentence, child))
    return last


async def first_line(child: ChildProcess) -> bytes:
    """Return the first line of a child's output. Raises an error if it exits without one."""
    async for line in child.lines():
        return line
    code = await child.wait()
    if refusal := refusal_of(child, code):
        raise RefusedError(refusal)
    if code == ExitCode.FAILED and child.last_line().startswith(_FAILED):
        raise FailedError(child.last_line().removeprefix(_FAILED))
    raise FailedError(
        with_last_output(f"The {child.name} exited at once ({describe_exit(code)}).", child)
    )


def refusal_of(child: ChildProcess, code: int) -> str:
    """Return why a child of Inferometer refused its work; empty if it did not.

    The exit code of other programs means anything.
    """
    line = child.last_line()
    is_refusal = code == ExitCode.REFUSED and line.startswith(_REFUSED)
    return line.removeprefix(_REFUSED) if is_refusal else ""


def with_last_output(sentence: str, child: ChildProcess) -> str:
    """Return a sentence about a process, with the last lines of its standard error."""
    lines = child.last_lines()
    return f"{sentence} Its last output:\n{lines}" if lines else f"{sentence} It printed nothing."
