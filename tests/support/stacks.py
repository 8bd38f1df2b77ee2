"""Real MLServer and Triton, from their wheels, on ports of 127.0.0.1.

`tests/install-tools verify` installs both into `~/.cache/inferometer`.
"""

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from bench.case import PeerMissingError
from bench.servers import (
    launcher_path,
    mlserver_program,
    require_mlserver,
    require_triton,
    triton_environment,
    triton_program,
)

from support.fake_load import free_port
from support.requirements import cannot_run
from support.waiting import wait_until

_ENDS_WITHIN_SECONDS = 60.0


class Stack:
    """A server that can be stopped by a signal and started again on the same ports."""

    def __init__(
        self, name: str, command: Sequence[str], environment: Mapping[str, str], log: Path
    ) -> None:
        self.name = name
        self.http_port, self.grpc_port = free_port(), free_port()
        self._command = command
        self._environment = environment
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, ready_path: str) -> None:
        """Start it, and wait until a path answers 200."""
        ports = {"HTTP_PORT": str(self.http_port), "GRPC_PORT": str(self.grpc_port)}
        words = [word.format(**ports) for word in self._command]
        environment = {key: each.format(**ports) for key, each in self._environment.items()}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                words, stdout=log, stderr=log, env={**os.environ, **environment}
            )
        url = f"{self.url('HTTP')}{ready_path}"
        wait_until(lambda: _answers(url), f"{self.name} at {url}", needs=[self])

    def stop(self, number: signal.Signals) -> None:
        """End it by a signal, and wait for its end."""
        if self._process is not None and self.running:
            self._process.send_signal(number)
            try:
                self._process.wait(_ENDS_WITHIN_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                raise

    def url(self, protocol: str) -> str:
        """Return its address for a protocol."""
        if protocol == "GRPC":
            return f"grpc://127.0.0.1:{self.grpc_port}"
        return f"http://127.0.0.1:{self.http_port}"

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._process is not None and self._process.poll() is None

    def wait(self) -> int:
        """Wait for its end and return its exit code."""
        return -1 if self._process is None else self._process.wait()

    def tail(self) -> str:
        """Return the end of its log."""
        return self._log.read_text(errors="replace")[-3000:]


@contextmanager
def mlserver(folder: Path, ready_path: str) -> Iterator[Stack]:
    """Run MLServer on the models of a folder, in this process group, and kill it at the end."""
    try:
        program = mlserver_program()
    except PeerMissingError as error:
        cannot_run(str(error))
    settings = {"host": "127.0.0.1", "parallel_workers": 0, "metrics_endpoint": None}
    (folder / "settings.json").write_text(json.dumps(settings))
    environment = {
        "PYTHONPATH": str(folder),
        "MLSERVER_HTTP_PORT": "{HTTP_PORT}",
        "MLSERVER_GRPC_PORT": "{GRPC_PORT}",
    }
    stack = Stack(
        "MLServer", [str(program), "start", str(folder)], environment, folder / "mlserver.log"
    )
    with _started(stack, ready_path):
        yield stack


@contextmanager
def triton(
    folder: Path,
    models: Path,
    ready_path: str = "/v2/health/ready",
    options: Sequence[str] = (),
) -> Iterator[Stack]:
    """Run Triton with its Python backend on a repository of models, and kill it at the end."""
    try:
        require_triton()
    except PeerMissingError as error:
        cannot_run(str(error))
    command = [
        *triton_program(folder, models),
        *("--http-port={HTTP_PORT}", "--http-address=127.0.0.1"),
        *("--grpc-port={GRPC_PORT}", "--grpc-address=127.0.0.1"),
        *("--allow-metrics=false", "--exit-on-error=false", "--strict-readiness=true"),
        *options,
    ]
    stack = Stack("Triton", command, triton_environment(), folder / "triton.log")
    with _started(stack, ready_path):
        yield stack


def launchers(folder: Path) -> str:
    """Return a search path on which a run finds `tritonserver` and `mlserver`."""
    try:
        require_triton()
        require_mlserver()
    except PeerMissingError as error:
        cannot_run(str(error))
    return launcher_path(folder)


@contextmanager
def _started(stack: Stack, ready_path: str) -> Iterator[None]:
    try:
        stack.start(ready_path)
        yield
    finally:
        stack.stop(signal.SIGKILL)


def _answers(url: str) -> bool:
    with suppress(URLError, OSError), urlopen(url, timeout=5) as answer:  # noqa: S310 - of loopback
        return bool(answer.status == 200)
    return False
