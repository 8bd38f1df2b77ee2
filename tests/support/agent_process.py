"""Starts a real node agent on loopback, queries it, and ends it."""

import json
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from http.client import HTTPResponse
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlencode

from inferometer_api.results.agent_sample import SAMPLE_PATH, AgentSample
from support.waiting import wait_until

DEADLINE_SECONDS = 60.0
"""Far above what anything takes: a test that reaches it has failed."""
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class AgentProcess:
    """One agent that listens."""

    def __init__(self, log: Path, *options: str) -> None:
        self._log = log
        with log.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "inferometer_telemetry", "--port", "0", *options],
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        self.port = 0

    @property
    def url(self) -> str:
        """Return where it answers."""
        return f"http://127.0.0.1:{self.port}"

    def listen(self) -> None:
        """Wait until it listens."""
        stdout = self.process.stdout
        line = b"" if stdout is None else stdout.readline()
        if not line:
            raise AssertionError(f"the agent ended early: {self.errors()}")
        message = json.loads(line)
        assert message["event"] == "listening"
        self.port = message["port"]

    def get(self, path: str) -> tuple[int, str]:
        """Return the status and the body of a page."""
        answer: HTTPResponse | HTTPError
        try:
            answer = _DIRECT.open(f"{self.url}{path}", timeout=DEADLINE_SECONDS)
        except HTTPError as error:
            answer = error
        with answer:
            return answer.status or 0, answer.read().decode()

    def get_soon(self, path: str) -> tuple[int, str]:
        """Return the status and the body of a page, once the agent takes the request."""
        found = self.get(path)

        def is_taken() -> bool:
            nonlocal found
            if found[0] == HTTPStatus.TOO_MANY_REQUESTS:
                found = self.get(path)
            return found[0] != HTTPStatus.TOO_MANY_REQUESTS

        wait_until(is_taken, f"an agent that takes the request of {path}", poll_seconds=0.1)
        return found

    def sample(self, *, pods: Sequence[str] = (), processes: Sequence[int] = ()) -> AgentSample:
        """Return a sample of these targets that was read after this call.

        A request within 50 ms of the last gets the same reading.
        """
        began_ns = time.monotonic_ns()
        while (found := self._sample(pods, processes)).monotonic_ns < began_ns:
            assert time.monotonic_ns() < began_ns + DEADLINE_SECONDS * 1e9, "no new reading"
        return found

    def _sample(self, pods: Sequence[str], processes: Sequence[int]) -> AgentSample:
        query = urlencode([*(("pod", uid) for uid in pods), *(("process", i) for i in processes)])
        status, body = self.get_soon(f"{SAMPLE_PATH}?{query}")
        if status != 200:
            raise AssertionError(f"the agent answered {status}: {body}\n{self.errors()}")
        return AgentSample.model_validate_json(body)

    def errors(self) -> str:
        """Return what it wrote to standard error."""
        return self._log.read_text()

    def ended(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(DEADLINE_SECONDS)

    def close(self) -> None:
        """End it if it still runs."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


@contextmanager
def agent(folder: Path, *options: str) -> Iterator[AgentProcess]:
    """Run an agent that listens; it is gone afterwards, and `folder` has its log."""
    process = AgentProcess(folder / "agent.log", *options)
    try:
        process.listen()
        yield process
    finally:
        process.close()
