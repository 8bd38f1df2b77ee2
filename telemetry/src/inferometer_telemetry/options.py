"""The agent's options."""

import argparse
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from typing_extensions import override

from inferometer_api.results.agent_sample import AGENT_PORT, Source

_SHORTEST_SECONDS, _LONGEST_SECONDS = 0.1, 60.0
"""An energy counter wraps around after some minutes of full power: it must be read more often."""


class _Parser(argparse.ArgumentParser):
    @override
    def error(self, message: str) -> NoReturn:
        # the exit code of every process of Inferometer that refuses its command line
        self.exit(2, f"{self.format_usage()}refused: {message}\n")


@dataclass(frozen=True, slots=True)
class Options:
    """The options of an agent."""

    host: str
    port: int
    node: str
    interval_seconds: float
    sys_root: Path
    proc_root: Path
    cgroup_root: Path
    nvml_root: Path | None
    """A recorded tree of NVML's answers, in place of the library."""
    model_cache_statistics: Path | None
    """The file in which the model cache of the node leaves its counters."""
    off: frozenset[Source]
    """The sources that are switched off."""


def options(arguments: Sequence[str] | None = None) -> Options:
    """Return the options of a command line; exit with 2 if it is wrong."""
    values = vars(_parser().parse_args(arguments))
    sources: tuple[Source, ...] = ("rapl", "nvml", "cgroup", "node")
    off = frozenset(source for source in sources if values.pop(f"no_{source}"))
    return Options(**values, off=off)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m inferometer_telemetry",
        description="Serve this node's energy, CPU, GPU and pod figures over HTTP.",
    )
    add = parser.add_argument
    add("--host", default="127.0.0.1", help="empty: every address (default: %(default)s)")
    add("--port", type=_port, default=AGENT_PORT, help="0 takes a free one (default: %(default)s)")
    add(
        "--node",
        default=os.environ.get("NODE_NAME") or socket.gethostname(),
        help="what this node is called (default: $NODE_NAME, else the host's name)",
    )
    add("--interval-seconds", type=_interval, default=1.0, help="between samples (default: 1)")
    for name, place in (("sys", "/sys"), ("proc", "/proc"), ("cgroup", "/sys/fs/cgroup")):
        add(
            f"--{name}-root",
            type=Path,
            default=Path(place),
            metavar="DIR",
            help=f"mount point of the node's {place}, or a recorded tree (default: %(default)s)",
        )
    add(
        "--nvml-root",
        type=Path,
        metavar="DIR",
        help="a recorded tree of NVML's answers, read in place of the library",
    )
    add(
        "--model-cache-statistics",
        type=Path,
        metavar="FILE",
        help="the counters of the node's model cache, for the metrics",
    )
    add("--no-rapl", action="store_true", help="no energy of packages and their memory")
    add("--no-nvml", action="store_true", help="no GPUs")
    add(
        "--no-cgroup",
        action="store_true",
        help="no pods; on loopback clients can still request processes",
    )
    add("--no-node", action="store_true", help="no CPUs, frequency, temperature and memory")
    return parser


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: give a number from 0 to 65535")
    return int(text)


def _interval(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not _SHORTEST_SECONDS <= seconds <= _LONGEST_SECONDS:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no interval: give {_SHORTEST_SECONDS:g} to {_LONGEST_SECONDS:g} seconds"
        )
    return seconds
