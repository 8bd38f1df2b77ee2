"""Command of the model cache: `python -m inferometer_fetch.cache`.

It serves the Container Storage Interface until SIGTERM. Exit codes: 0 it was stopped; 1 its folder
or socket cannot be used.
"""

import argparse
import math
import os
import platform
import re
import signal
import sys
import threading
import time
from collections.abc import Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path

import structlog

from inferometer_api.plan.cluster_objects import CACHE_DRIVER
from inferometer_api.spec.resolve import read_bytes_above_zero
from inferometer_fetch.cache.access import Access
from inferometer_fetch.cache.csi_server import (
    CsiService,
    RegistrationService,
    start_registration,
    start_server,
)
from inferometer_fetch.cache.download import Downloads, external_locations
from inferometer_fetch.cache.files import claim_folder
from inferometer_fetch.cache.mounter import LinuxMounter
from inferometer_fetch.cache.node_cache import NodeCache
from inferometer_fetch.cache.store import FOLDER_NAMES, ModelStore

_log = structlog.get_logger()
_STOP_SECONDS = 10.0
_NO_USER = 2**32 - 1
"""What Linux takes for: leave the user as it is."""
_STATISTICS_SECONDS = 2.0
_CHECK_SECONDS = 600.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT; return the exit code."""
    options = _parser().parse_args(arguments)
    structlog.configure(
        processors=[
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.add_log_level,
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    try:
        lock = claim_folder(options.folder, FOLDER_NAMES)
        cache = _cache(options)
        cache.restore()
        service = CsiService(
            cache,
            driver=options.driver,
            version=version("inferometer"),
            node=options.node,
            kubelet_folder=options.kubelet_folder,
        )
        servers = [start_server(service, options.socket)]
        if options.registration_socket is not None:
            endpoint = options.kubelet_socket or options.socket
            registration = RegistrationService(driver=options.driver, endpoint=endpoint)
            servers.append(start_registration(registration, options.registration_socket))
    except (OSError, RuntimeError) as error:
        sys.stderr.write(f"The model cache cannot start: {error}.\n")
        return 1
    _log.info("listening", socket=str(options.socket), folder=str(options.folder))
    if options.statistics is not None:
        words = (cache, options.statistics, ended)
        threading.Thread(target=_write_statistics, args=words, daemon=True).start()
    checks = (cache, options.verify_hours * 3600.0, ended)
    threading.Thread(target=_check_repeatedly, args=checks, daemon=True).start()
    ended.wait()
    for stopped in [each.stop(_STOP_SECONDS) for each in servers]:
        stopped.wait()
    lock.close()
    return 0


def _cache(options: argparse.Namespace) -> NodeCache:
    store = ModelStore(
        options.folder,
        quota_bytes=options.quota_bytes,
        policy=options.eviction,
        clock=time.time,
    )
    downloads = Downloads(
        store,
        max_model_bytes=options.max_model_bytes,
        find_external=partial(external_locations, user=options.parser_user),
    )
    return NodeCache(store, downloads, Access(time.monotonic), LinuxMounter(options.folder))


def _check_repeatedly(cache: NodeCache, period_seconds: float, ended: threading.Event) -> None:
    """Check references, and each entry's checksums after `period_seconds`, until the end.

    The time of an entry's last check outlives the plugin: frequent starts postpone no check.
    """
    while True:
        try:
            cache.restore()
            for key, files in cache.verify(period_seconds=period_seconds).items():
                _log.error("damaged", key=key, files=files)
        except Exception as error:  # noqa: BLE001 - the checks go on, whatever one of them met
            _log.error("not checked", reason=repr(error))
        if ended.wait(min(period_seconds, _CHECK_SECONDS)):
            return


def _write_statistics(cache: NodeCache, file: Path, ended: threading.Event) -> None:
    """Write the counters for the node's agent now and after each change, until the end."""
    written = ""
    while True:
        text = cache.statistics().to_json()
        if text != written:
            partial_file = file.with_name(f".{file.name}")
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
                partial_file.write_text(text)
                partial_file.replace(file)
                written = text
            except OSError as error:
                _log.warning("statistics not written", file=str(file), reason=str(error))
        if ended.wait(_STATISTICS_SECONDS):
            return


def _bytes(text: str) -> int:
    try:
        return read_bytes_above_zero(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _hours(text: str) -> float:
    try:
        hours = float(text)
    except ValueError:
        hours = 0.0
    if not 0 < hours < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} must be a number of hours above 0")
    return hours


def _user(text: str) -> int:
    if not re.fullmatch("[0-9]{1,10}", text) or not 0 < int(text) < _NO_USER:
        raise argparse.ArgumentTypeError(f"{text!r} must be the number of a user other than root")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m inferometer_fetch.cache",
        description="Keep models on this node, and mount them into pods through CSI.",
    )
    _add_places(parser)
    _add_limits(parser)
    return parser


def _add_places(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--socket", type=Path, required=True, help="Unix socket of the plugin.")
    parser.add_argument(
        "--registration-socket",
        type=Path,
        help="Unix socket in the kubelet's folder plugins_registry by which it finds the plugin.",
    )
    parser.add_argument(
        "--kubelet-socket",
        type=Path,
        help="Path of --socket as the kubelet sees it; absent: the same path.",
    )
    parser.add_argument("--folder", type=Path, required=True, help="Folder of the cache.")
    parser.add_argument(
        "--statistics", type=Path, help="File for the counters that the node's agent exposes."
    )
    parser.add_argument(
        "--kubelet-folder",
        type=Path,
        default=Path("/var/lib/kubelet"),
        help="The kubelet's folder; targets elsewhere are refused.",
    )
    parser.add_argument("--driver", default=CACHE_DRIVER, help="Name of the CSI driver.")
    parser.add_argument(
        "--node", default=os.environ.get("NODE_NAME") or platform.node(), help="Name of the node."
    )


def _add_limits(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--quota",
        dest="quota_bytes",
        type=_bytes,
        default=_bytes("50Gi"),
        metavar="QUANTITY",
        help="The most disk that models and downloads take: 50Gi.",
    )
    parser.add_argument(
        "--max-model",
        dest="max_model_bytes",
        type=_bytes,
        default=_bytes("10Gi"),
        metavar="QUANTITY",
        help="The largest file of a model: 10Gi.",
    )
    parser.add_argument(
        "--eviction",
        choices=("CostAware", "LRU"),
        default="CostAware",
        help="What a full cache removes first of what no pod uses: the model that costs least to "
        "fetch again (fetch time x popularity / size), or the one used longest ago.",
    )
    parser.add_argument(
        "--verify-hours", type=_hours, default=24.0, help="Time between checks of all checksums."
    )
    parser.add_argument(
        "--parser-user",
        type=_user,
        metavar="UID",
        help="User and group that read a downloaded graph; absent: those of this process.",
    )


if __name__ == "__main__":
    sys.exit(main())
