"""Runs Triton's perf_analyzer and reads its report and CPU time.

    python -m bench.perf_analyzer --port 8000 --clients 8
    python -m bench.perf_analyzer --port 8001 --protocol GRPC --rate 2000

runs it and says what came of it; `--requests` sends so many in place of a time.
"""

import argparse
import csv
import json
import os
import resource
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep

from bench.case import PeerMissingError
from bench.model_files import MEASURANDS, TINY, Measurand, Protocol
from bench.processes import BenchError, cpu_seconds_of, on_core

_WINDOWS = 3
"""It never reports fewer: it looks whether the last three differ."""
_RATE = "Inferences/Second"
_PATIENCE_SECONDS = 10.0
_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Clients:
    """A closed loop: so many requests outstanding."""

    number: int
    is_async: bool = False
    """One thread that is called back, in place of a thread that waits for each request."""


@dataclass(frozen=True, slots=True)
class Rate:
    """An open loop: so many requests a second, at Poisson's distances."""

    per_second: float
    is_async: bool = True
    threads: int | None = None
    """How many threads send; None: as many as it likes."""


@dataclass(frozen=True, slots=True)
class PerfOptions:
    """One run of perf_analyzer."""

    port: int
    load: Clients | Rate
    protocol: Protocol = "HTTP"
    measurand: Measurand = TINY
    seconds: float = 3.0
    requests: int = 0
    """If not 0, a closed loop sends exactly this number, and its rate is only rough."""
    share: int = 64
    """gRPC: how many of its clients have one connection in common."""
    host: str = "127.0.0.1"
    extra: tuple[str, ...] = ()
    """More of its own options."""


@dataclass(frozen=True, slots=True)
class PerfRun:
    """One run of perf_analyzer."""

    requests_per_second: float
    latency_us: dict[str, float]
    """By its own names: p50, p90, p95, p99."""
    cpu_seconds_per_request: float
    """User and system seconds: of the whole process if the number of requests was set, else of
    the middle of its time."""
    report: str
    """What it said on standard output."""


def require_perf_analyzer() -> None:
    """Raise PeerMissingError unless perf_analyzer is here and finds its libraries."""
    if not _binary().is_file():
        raise PeerMissingError(
            "perf_analyzer is not installed: run bench/install-tools, which takes it from the "
            "wheel tritonclient 2.51.0 (15 MB) into a folder of its own."
        )
    linked = subprocess.run(
        ["ldd", str(_binary())], capture_output=True, text=True, check=False, env=_environment()
    )
    absent = [line.split()[0] for line in linked.stdout.splitlines() if "not found" in line]
    if absent:
        raise PeerMissingError(
            f"perf_analyzer misses {', '.join(absent)}: run bench/install-tools as root on "
            "Debian, or install it (libb64.so.0d is in Debian's libb64-0d)."
        )


class _HungError(BenchError):
    """It did not come to its end in three times its time."""


def run_perf_analyzer(options: PerfOptions, core: int | None = None) -> PerfRun:
    """Run it on a core, and again where it hangs, as its asynchronous calls do now and then.

    Raises BenchError if it fails or any of its requests did, or it hung three times.
    """
    for _ in range(_ATTEMPTS - 1):
        with suppress(_HungError):
            return _run(options, core)
    return _run(options, core)


def _run(options: PerfOptions, core: int | None) -> PerfRun:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "report.csv"
        with on_core(core):
            process = subprocess.Popen(
                [*perf_analyzer_command(options), "-f", str(file)],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                cwd=folder,
                env=_environment(options.share),
            )
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        share = None if options.requests else _share_of_a_core(process, options.seconds)
        output = _wait_for_end(process, options.seconds)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if process.returncode != 0 or not file.is_file():
            raise BenchError(f"perf_analyzer ended with {process.returncode}: {output[-600:]}")
        rate, latencies = parse_report(file.read_text(encoding="utf-8"))
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return PerfRun(
        rate, latencies, used / options.requests if share is None else share / rate, output
    )


def _share_of_a_core(process: "subprocess.Popen[str]", seconds: float) -> float:
    """Return its CPU seconds per second between a third and two thirds of its time."""
    sleep(seconds / 3)
    began, used = monotonic(), cpu_seconds_of(process.pid)
    sleep(seconds / 3)
    return (cpu_seconds_of(process.pid) - used) / (monotonic() - began)


def _wait_for_end(process: "subprocess.Popen[str]", seconds: float) -> str:
    """Return what it said, once it has ended."""
    try:
        return process.communicate(timeout=3 * seconds + _PATIENCE_SECONDS)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        output = process.communicate()[0]
        raise _HungError(f"perf_analyzer did not come to its end: {output[-600:]}") from None


def perf_analyzer_command(options: PerfOptions) -> list[str]:
    """Return its command line."""
    tensor, shape = options.measurand.input, ",".join(map(str, options.measurand.shape))
    return [
        str(_binary()),
        *("-m", options.measurand.name),
        *("-u", f"{options.host}:{options.port}"),
        *("-i", options.protocol.lower()),
        *("--shape", f"{tensor.name}:{shape}"),
        *_load(options.load),
        *_length(options),
        *options.extra,
    ]


def parse_report(text: str) -> tuple[float, dict[str, float]]:
    """Return requests per second and latencies in microseconds from its CSV file.

    Raises BenchError if it reports no requests.
    """
    rows = list(csv.DictReader(text.splitlines()))
    if len(rows) != 1 or not float(rows[0].get(_RATE) or 0):
        raise BenchError(f"perf_analyzer's report has no requests: {text[-400:]}")
    [row] = rows
    ends = " latency"
    latencies = {
        name.removesuffix(ends): float(value)
        for name, value in row.items()
        if name.startswith("p") and name.endswith(ends)
    }
    return float(row[_RATE]), latencies


def _load(load: Clients | Rate) -> list[str]:
    mode = ["--async"] if load.is_async else ["--sync"]
    match load:
        case Clients(number=number):
            return ["--concurrency-range", str(number), *mode]
        case Rate(per_second=per_second, threads=threads):
            words = ["--request-rate-range", f"{per_second:g}", "--request-distribution", "poisson"]
            return [*words, *mode, *(["--max-threads", str(threads)] if threads else [])]


def _length(options: PerfOptions) -> list[str]:
    if options.requests:
        return ["--request-count", str(options.requests)]
    window = round(options.seconds * 1000 / _WINDOWS)
    # Three windows of whatever kind are enough: the repeats show how much they differ.
    return [
        *("--measurement-interval", str(max(1, window))),
        *("--stability-percentage", "999"),
        *("--max-trials", str(_WINDOWS)),
    ]


def _folder() -> Path:
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches) / "inferometer" / "bench" / "perf_analyzer"


def _binary() -> Path:
    return _folder() / "perf_analyzer"


def _environment(share: int = 64) -> dict[str, str]:
    libraries = [str(_folder()), os.environ.get("LD_LIBRARY_PATH")]
    return {
        **os.environ,
        "LD_LIBRARY_PATH": ":".join(place for place in libraries if place),
        # How many of its gRPC clients have one connection in common; by itself six.
        "TRITON_CLIENT_GRPC_CHANNEL_MAX_SHARE_COUNT": str(share),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Run it once, and say what came of it."""
    parser = argparse.ArgumentParser(description="Run perf_analyzer and report its cost.")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--protocol", choices=["HTTP", "GRPC"], default="HTTP")
    parser.add_argument("--model", choices=sorted(MEASURANDS), default="tiny")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--rate", type=float)
    parser.add_argument("--sync", action="store_true")
    parser.add_argument("--async", dest="is_async", action="store_true")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--requests", type=int, default=0)
    parser.add_argument("--share", type=int, default=64)
    given = parser.parse_args(arguments)
    load = (
        Rate(given.rate, is_async=not given.sync)
        if given.rate
        else Clients(given.clients, is_async=given.is_async)
    )
    options = PerfOptions(
        given.port,
        load,
        protocol=given.protocol,
        measurand=MEASURANDS[given.model],
        seconds=given.seconds,
        requests=given.requests,
        share=given.share,
    )
    print(json.dumps(asdict(run_perf_analyzer(options)), indent=2))


if __name__ == "__main__":
    main()
