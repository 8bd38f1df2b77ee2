"""Command of the image remover: `python -m inferometer_telemetry.images`.

It serves until SIGTERM. Exit codes: 0 it was stopped; 2 its command line or its address is wrong.
"""

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import orjson
from aiohttp import web

from inferometer_api.nodes.image_removal import REMOVAL_PORT
from inferometer_telemetry.images.caller_check import CallerCheck, service_account
from inferometer_telemetry.images.cri_client import CriClient
from inferometer_telemetry.images.removal_endpoint import RemovalEndpoint

_EXIT_DONE, _EXIT_REFUSED = 0, 2
_PAUSE_SECONDS = 5.0
_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT; return the exit code."""
    return asyncio.run(_serve(parser().parse_args(arguments)))


async def _serve(options: argparse.Namespace) -> int:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    endpoint = RemovalEndpoint(
        CriClient(options.runtime_socket),
        CallerCheck(options.api_server, options.api_authority, options.api_token),
        frozenset(options.operator),
        tuple(options.repository),
        options.pause_seconds,
    )
    runner = web.AppRunner(endpoint.application(), access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, options.host or None, options.port).start()
    except OSError as error:
        where = f"{options.host}:{options.port}"
        sys.stderr.write(f"refused: The image remover cannot listen at {where}: {error}.\n")
        await runner.cleanup()
        return _EXIT_REFUSED
    event = {"event": "listening", "port": runner.addresses[0][1]}
    sys.stdout.buffer.write(orjson.dumps(event) + b"\n")
    sys.stdout.flush()
    await stop.wait()
    await runner.cleanup()
    return _EXIT_DONE


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="python -m inferometer_telemetry.images",
        description="Remove unused serving images from this node when an operator requests it.",
    )
    made.add_argument("--host", default="127.0.0.1", help="Empty: every address.")
    made.add_argument("--port", type=int, default=REMOVAL_PORT, help="0 takes a free one.")
    made.add_argument(
        "--runtime-socket", type=Path, required=True, help="CRI socket of the container runtime."
    )
    made.add_argument(
        "--repository",
        action="append",
        required=True,
        help="Repository whose images may be removed; repeat it as needed.",
    )
    made.add_argument(
        "--operator",
        action="append",
        required=True,
        type=_account_of,
        metavar="NAMESPACE/NAME",
        help="Service account that may remove images; repeat it as needed.",
    )
    made.add_argument(
        "--pause-seconds",
        type=float,
        default=_PAUSE_SECONDS,
        help="Between two removals; a start with a pull takes longer.",
    )
    _add_api_server(made)
    return made


def _add_api_server(made: argparse.ArgumentParser) -> None:
    host = os.environ.get("KUBERNETES_SERVICE_HOST", "kubernetes.default.svc")
    host = f"[{host}]" if ":" in host else host
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    made.add_argument("--api-server", default=f"https://{host}:{port}", metavar="URL")
    made.add_argument("--api-authority", type=Path, default=_ACCOUNT / "ca.crt", metavar="FILE")
    made.add_argument("--api-token", type=Path, default=_ACCOUNT / "token", metavar="FILE")


def _account_of(text: str) -> str:
    namespace, slash, name = text.partition("/")
    if not (namespace and slash and name):
        raise argparse.ArgumentTypeError(f"{text!r} is no service account: give NAMESPACE/NAME")
    return service_account(namespace, name)


if __name__ == "__main__":
    sys.exit(main())
