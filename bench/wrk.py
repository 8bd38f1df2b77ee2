"""Runs wrk and reads its report and CPU time."""

import re
import resource
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from bench.case import PeerMissingError
from bench.processes import BenchError, on_core

REQUESTS = Path(__file__).with_name("requests")
"""The Lua files with wrk's requests."""


@dataclass(frozen=True, slots=True)
class WrkRun:
    """One run of wrk."""

    requests: int
    requests_per_second: float
    cpu_seconds: float
    """User and system seconds of wrk, its start and end included."""


def require_wrk() -> None:
    """Raise PeerMissingError unless wrk is here."""
    if shutil.which("wrk") is None:
        raise PeerMissingError(
            "wrk is not installed: run bench/install-tools as root on Debian, or install wrk by "
            "your system's package manager."
        )


def wrk_version() -> str:
    """Return wrk's version, or that it is missing."""
    if shutil.which("wrk") is None:
        return "not installed"
    version = subprocess.run(["wrk", "-v"], capture_output=True, text=True, check=False)
    return version.stdout.split("\n")[0].removeprefix("wrk ").partition(" [")[0]


def run_wrk(
    script: str, port: int, *, connections: int, seconds: float, core: int | None
) -> WrkRun:
    """Send the request of a Lua file as fast as its replies come, and return what that gave.

    Raises BenchError if any reply was no success or any connection failed.
    """
    command = [
        "wrk",
        "-t1",
        f"-c{connections}",
        f"-d{max(1, round(seconds))}s",
        *("-s", str(REQUESTS / script)),
        f"http://127.0.0.1:{port}",
    ]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with on_core(core):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise BenchError(f"wrk ended with {done.returncode}: {(done.stderr or done.stdout)[-400:]}")
    requests, rate = parse_wrk(done.stdout)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return WrkRun(requests, rate, used)


def parse_wrk(report: str) -> tuple[int, float]:
    """Return the number of requests and their rate a second from wrk's report.

    Raises BenchError if it reports a fault or no requests.
    """
    for line in report.splitlines():
        if "Non-2xx or 3xx" in line or "Socket errors" in line:
            raise BenchError(f"wrk met faults, so that its figures mean nothing: {line.strip()}.")
    counted = re.search(r"(\d+) requests in ", report)
    rate = re.search(r"Requests/sec:\s*([\d.]+)", report)
    if counted is None or rate is None or int(counted[1]) == 0:
        raise BenchError(f"wrk's report has no requests: {report[-400:]}")
    return int(counted[1]), float(rate[1])
