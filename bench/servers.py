"""Starts the servers under test."""

import http.client
import json
import os
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from bench.case import PeerMissingError, Place
from bench.model_files import TINY, TINY_WEIGHTS, Measurand
from bench.processes import BenchError, Child, start_child, wait_for_http

_TRITON_MODEL = Path(__file__).with_name("triton_model")
_STUB = "triton_python_backend_stub"


@dataclass(frozen=True, slots=True)
class Server:
    """A server that is ready."""

    process: Child
    http_port: int
    grpc_port: int


@contextmanager
def inferometer_server(place: Place, measurand: Measurand, *options: str) -> Iterator[Server]:
    """Run our own server on its core, one thread within an operator."""
    command = [
        *(sys.executable, "-m", "inferometer_serving"),
        *("--model", str(measurand.write(place.folder))),
        *("--threads", "1"),
        *options,
    ]
    with start_child(
        "Inferometer's server", command, core=place.server_core, folder=place.folder
    ) as process:
        ports = process.read()
        ready = process.read()
        if ready.get("event") != "ready":
            raise BenchError(f"Inferometer's server was never ready: {ready}.")
        yield Server(process, ports["httpPort"], ports["grpcPort"])


def triton_home() -> Path:
    """Return where bench/install-tools --with-triton puts Triton."""
    return _cache() / "bench" / "triton"


def require_triton() -> None:
    """Raise PeerMissingError unless Triton and its Python backend can be run here."""
    if not _triton_folder().is_dir():
        raise PeerMissingError(
            "Triton's server is not installed: run bench/install-tools --with-triton, which "
            "takes it from the wheel nvidia-pytriton (55 MB) into a folder of its own."
        )
    if not _stub().is_file():
        raise PeerMissingError(
            f"The installed Triton has no Python backend for Python {_python()}: run the "
            "benchmarks with a Python of 3.9 to 3.12."
        )
    linked = subprocess.run(
        ["ldd", str(_stub())], capture_output=True, text=True, check=False, env=_library_path()
    )
    absent = [line.split()[0] for line in linked.stdout.splitlines() if "not found" in line]
    if absent:
        raise PeerMissingError(
            f"Triton's Python backend misses {', '.join(absent)}: install it (on Debian "
            f"libpython{_python()}) and run bench/install-tools --with-triton again."
        )


@contextmanager
def triton_server(place: Place) -> Iterator[Server]:
    """Run Triton with its Python backend on the server's core; its model is numpy's addition."""
    port, grpc_port = _free_port(), _free_port()
    with start_child(
        "Triton",
        [
            *triton_program(place.folder, _TRITON_MODEL),
            f"--http-port={port}",
            "--http-address=127.0.0.1",
            f"--grpc-port={grpc_port}",
            "--grpc-address=127.0.0.1",
            "--allow-metrics=false",
        ],
        core=place.server_core,
        folder=place.folder,
        environment=triton_environment(),
    ) as process:
        wait_for_http(process, port, "/v2/health/ready")
        yield Server(process, port, grpc_port)


def triton_program(folder: Path, models: Path) -> list[str]:
    """Return how to run Triton on a repository of models; lays out its backend in `folder`."""
    # The backend runs the stub in its folder: the one for this Python's version.
    backend = folder / "backends" / "python"
    backend.mkdir(parents=True, exist_ok=True)
    installed = _triton_folder() / "backends" / "python"
    for file in (*installed.glob("*"), _stub()):
        if not (backend / file.name).exists():
            (backend / file.name).symlink_to(file)
    return [
        str(_triton_folder() / "bin" / "tritonserver"),
        f"--model-repository={models}",
        f"--backend-directory={backend.parent}",
    ]


def triton_environment() -> dict[str, str]:
    """Return the variables that Triton's Python backend needs in addition."""
    return {**_library_path(), "PYTHONPATH": str(triton_home() / "packages")}


def require_mlserver() -> None:
    """Raise PeerMissingError unless MLServer is installed in an environment of its own."""
    if not _mlserver().is_file():
        raise PeerMissingError(
            "MLServer is not installed: run tests/install-tools verify, which puts it into an "
            "environment of its own."
        )


def mlserver_program() -> Path:
    """Return MLServer's program. Raises PeerMissingError if it is not installed."""
    require_mlserver()
    return _mlserver()


def launcher_path(folder: Path) -> str:
    """Return a search path with `tritonserver` and `mlserver`, for runs that launch them.

    Writes both into `folder`; one that is not installed ends when it is started.
    """
    server, *options = triton_program(folder, Path("unused"))
    backends = next(each for each in options if each.startswith("--backend-directory"))
    environment = triton_environment()
    # Triton's own numpy comes first; ONNX Runtime is that of this environment.
    packages = f"{environment['PYTHONPATH']}:{sysconfig.get_path('platlib')}"
    programs = folder / "bin"
    programs.mkdir()
    _write_program(
        programs / "tritonserver",
        f"export LD_LIBRARY_PATH='{environment['LD_LIBRARY_PATH']}'",
        f"export PYTHONPATH='{packages}'",
        f"exec '{server}' '{backends}' \"$@\"",
    )
    # Not the folder of its environment: Triton would take the packages of the python3 there.
    _write_program(programs / "mlserver", f"exec '{_mlserver()}' \"$@\"")
    return f"{programs}:{os.environ['PATH']}"


def check_tiny(server: Server) -> None:
    """Raise BenchError unless a server adds the tiny model's weights to four numbers."""
    numbers = np.array([1, 2, 3, 4], dtype=np.float32)
    tensor = {"name": "x", "shape": [1, 4], "datatype": "FP32", "data": numbers.tolist()}
    connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=10)
    try:
        body = json.dumps({"inputs": [tensor]})
        connection.request("POST", f"/v2/models/{TINY.name}/infer", body)
        answer = json.loads(connection.getresponse().read())
    finally:
        connection.close()
    found = answer.get("outputs", [{}])[0].get("data")
    if found != (numbers + TINY_WEIGHTS).tolist():
        raise BenchError(f"{server.process.name} answered {answer}, which is not the sum.")


def _cache() -> Path:
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches) / "inferometer"


def _mlserver() -> Path:
    return _cache() / "stacks" / "mlserver" / "bin" / "mlserver"


def _write_program(path: Path, *lines: str) -> None:
    path.write_text("\n".join(("#!/bin/sh", *lines, "")), encoding="utf-8")
    path.chmod(0o755)


def _triton_folder() -> Path:
    return triton_home() / "packages" / "pytriton" / "tritonserver"


def _stub() -> Path:
    return _triton_folder() / "python_backend_stubs" / _python() / _STUB


def _python() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def _library_path() -> dict[str, str]:
    """Return where the stub finds the shared library of this Python, if it has one."""
    places = [sysconfig.get_config_var("LIBDIR"), os.environ.get("LD_LIBRARY_PATH")]
    return {"LD_LIBRARY_PATH": ":".join(place for place in places if place)}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
