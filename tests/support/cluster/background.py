"""A cluster that stays up after the command that started it has ended."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from support.cluster import homes
from support.cluster.binaries import cache_folder
from support.cluster.cluster import Cluster
from support.cluster.messages import say
from support.cluster.traces import traces
from support.waiting import wait_until

_READY = "ready"
_END_SECONDS = 60.0


def up(name: str, nodes: int, archives: Sequence[Path]) -> Path:
    """Start a cluster in the background and return its kubeconfig once its nodes are Ready."""
    if homes.holder(name) is not None:
        raise RuntimeError(
            f"A cluster called {name!r} is up: KUBECONFIG={kubeconfig(name)}."
            " Take it down first, or name another."
        )
    log = _log(name)
    log.parent.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, "-m", "support.cluster", "serve", *map(str, archives)]
    with log.open("w") as errors:
        # It gets a session of its own, so that it outlives this terminal.
        daemon = subprocess.Popen(
            [*words, "--name", name, "--nodes", str(nodes)],
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
    assert daemon.stdout is not None  # requested above
    with daemon.stdout as daemon_stdout:
        if daemon_stdout.readline().strip() != _READY:
            daemon.wait()
            raise RuntimeError(f"The cluster did not come up: {log.read_text()[-3000:]}")
    daemon.returncode = 0  # it goes on without us: no process waits for it
    return kubeconfig(name)


def serve(name: str, nodes: int, archives: Sequence[Path]) -> NoReturn:
    """Hold a cluster until a signal ends it; print a line when it is ready."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    cluster = Cluster(name, nodes, archives)
    try:
        cluster.provide_storage()
        sys.stdout.write(f"{_READY}\n")
        sys.stdout.flush()
        while True:
            signal.pause()
    finally:
        cluster.stop()


def down(name: str) -> bool:
    """End a cluster and remove every trace of it; return whether there was one."""
    if name not in homes.names():
        return False
    slot = homes.slot(name)
    process = homes.holder(name)
    if process is not None:
        _end(name, process)
    homes.sweep()
    _log(name).unlink(missing_ok=True)
    left = traces(name, slot)
    if left:
        raise RuntimeError(f"The cluster {name!r} is down, and this is left of it: {left}")
    return True


def kubeconfig(name: str) -> Path:
    """Return the kubeconfig of the cluster with this name."""
    return homes.home_folder(name) / "kubeconfig"


def _end(name: str, process: int) -> None:
    """Ask the process to end, and kill it when it does not: its guard ends all else."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGTERM)
    try:
        wait_until(lambda: _is_gone(process), f"The end of {name!r}", (), _END_SECONDS)
    except TimeoutError:
        say(f"The cluster {name!r} did not end within {_END_SECONDS:g} s: it is killed.")
        os.kill(process, signal.SIGKILL)
        wait_until(lambda: _is_gone(process), f"The end of {name!r}", (), _END_SECONDS)


def _is_gone(process: int) -> bool:
    """Return whether the process has ended; a zombie has."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state == "Z"


def _log(name: str) -> Path:
    return cache_folder() / "cluster-logs" / f"{name}.log"
