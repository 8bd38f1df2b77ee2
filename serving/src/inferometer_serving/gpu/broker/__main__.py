"""Command of the broker: `python -m inferometer_serving.gpu.broker --folder FOLDER --quota 20Gi`.

It starts a process for each GPU, or serves the one that `--gpu` names, at the socket
`FOLDER/UUID.sock`, until SIGTERM. It prints a line of JSON once it serves: `{"event": "ready",
"socket": ..., "quotaBytes": ...}` and the constants that decide whether sharing pays. Exit codes:
0 it was stopped; 1 the process of a GPU was killed or failed; 2 there is no GPU, or the folder
cannot be used.
"""

import argparse
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import orjson
import structlog

from inferometer_api.spec.resolve import read_bytes_above_zero
from inferometer_serving.gpu.broker.payoff import measure_constants
from inferometer_serving.gpu.broker.server import Broker, listen
from inferometer_serving.gpu.broker.weight_cache import WeightCache
from inferometer_serving.gpu.device import GpuUnavailableError, gpu_count
from inferometer_serving.gpu.shared_memory import open_gpu_memory

_EXIT_REFUSED = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT; return the exit code."""
    options = _parser().parse_args(arguments)
    structlog.configure(
        processors=[
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.add_log_level,
            structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"]),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    try:
        if options.gpu is None:
            return _serve_all(sys.argv[1:] if arguments is None else arguments, ended)
        _serve(options, ended)
    except (GpuUnavailableError, RuntimeError, OSError) as error:
        sys.stderr.write(f"The broker of GPU weights cannot run: {error}.\n")
        return _EXIT_REFUSED
    return 0


def _serve(options: argparse.Namespace, ended: threading.Event) -> None:
    with open_gpu_memory(options.gpu) as (uuid, memory):
        constants = measure_constants(memory)
        cache = WeightCache(options.quota_bytes, options.eviction)
        users = {os.getuid(), *options.users}
        broker = Broker(cache, memory, constants, users)
        path = options.folder / f"{uuid}.sock"
        listener = listen(path, is_open=bool(options.users))
        threading.Thread(target=broker.serve, args=(listener,), daemon=True).start()
        ready = {"event": "ready", "socket": str(path), **broker.status()}
        sys.stdout.write(orjson.dumps(ready).decode() + "\n")
        sys.stdout.flush()
        ended.wait()
        path.unlink()


def _serve_all(arguments: Sequence[str], ended: threading.Event) -> int:
    """Serve each GPU in a process of its own; when one ends, end all."""
    count = gpu_count()
    if not count:
        raise GpuUnavailableError("CUDA shows no GPU")
    words = [sys.executable, "-m", "inferometer_serving.gpu.broker", *arguments]
    processes = [
        subprocess.Popen([*words, "--gpu", str(index)])  # noqa: S603 - words of our own
        for index in range(count)
    ]

    def watch(process: "subprocess.Popen[bytes]") -> None:
        process.wait()
        ended.set()

    for each in processes:
        threading.Thread(target=watch, args=(each,), daemon=True).start()
    ended.wait()
    for each in processes:
        each.terminate()
    codes = [each.wait() for each in processes]
    # One that is still starting does not handle the signal yet.
    return max(int(code != -signal.SIGTERM) if code < 0 else code for code in codes)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m inferometer_serving.gpu.broker",
        description="Hold weights in GPU memory, and share them with servers of this machine.",
    )
    parser.add_argument(
        "--folder", type=Path, required=True, help="The folder of the sockets, which must exist."
    )
    parser.add_argument(
        "--quota",
        dest="quota_bytes",
        type=_quota,
        required=True,
        help="The most GPU memory that weights take on each GPU, as in 20Gi.",
    )
    parser.add_argument(
        "--eviction",
        choices=("CostAware", "LRU"),
        default="CostAware",
        help="What leaves first of what no server uses.",
    )
    parser.add_argument(
        "--user",
        dest="users",
        type=int,
        action="append",
        default=[],
        help="A further user (its number) whose servers may connect; may be given several times.",
    )
    parser.add_argument("--gpu", type=int, help="The number of the only GPU to serve.")
    return parser


def _quota(text: str) -> int:
    try:
        return read_bytes_above_zero(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


if __name__ == "__main__":
    sys.exit(main())
