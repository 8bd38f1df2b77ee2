"""`inferometer results serve`: the REST API and the web pages of the stored results."""

import socket
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated

import typer

from inferometer_cli.exits import RefusedError
from inferometer_cli.price_file import PricesOption, load_prices
from inferometer_cli.program import program_version
from inferometer_cli.result_store import DatabaseOption, open_store
from inferometer_cli.terminal import print_message

_SHORTEST_TOKEN = 16
_MOST_REQUESTS = 64
_FINISH_SECONDS = 5


def serve(
    *,
    host: Annotated[
        str,
        typer.Option(
            "--host",
            metavar="ADDRESS",
            help="Address to listen on; others than loopback need --token-file.",
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option("--port", min=0, max=65535, metavar="PORT", help="Port; 0 takes a free one."),
    ] = 8090,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            metavar="FILE",
            help="File with the token that every request must carry, as a Bearer token or as the "
            "password of Basic authentication.",
            show_default=False,
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host",
            metavar="NAME",
            help="Another name of this host that requests may use. Repeatable.",
            show_default=False,
        ),
    ] = None,
    prices: PricesOption = None,
    database: DatabaseOption = None,
) -> None:
    """Serve the stored results: web pages, and the API under /api/v1. Nothing can be changed.

    Ends on Ctrl-C or SIGTERM.
    """
    token = None if token_file is None else _token(token_file)
    if token is None and not _is_loopback(host):
        raise RefusedError(
            f"{host} is open to other machines: give --token-file, or listen on 127.0.0.1."
        )
    try:
        import uvicorn

        from inferometer_results.service.access.rules import AccessRules
    except ImportError as error:
        raise RefusedError(
            "FastAPI and uvicorn are not installed. Install inferometer[service]."
        ) from error
    price_list = load_prices(prices)
    names = {host, socket.gethostname(), *(allow_host or [])}
    rules = AccessRules(frozenset(name.lower() for name in names), token)
    with open_store(database) as store, _listen(host, port) as listener:
        from time import perf_counter

        from inferometer_results.service.app import create_app, exempt_from_collection

        app = create_app(store, rules, program_version(), perf_counter, price_list)
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            limit_concurrency=_MOST_REQUESTS,
            timeout_graceful_shutdown=_FINISH_SECONDS,
        )
        exempt_from_collection()
        print_message(f"Results: {_url(host, listener)} (Ctrl-C ends it)")
        uvicorn.Server(config).run(sockets=[listener])


def _token(file: Path) -> str:
    try:
        token = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise RefusedError(f"Cannot read the token in {file}: {error}.") from error
    if len(token) < _SHORTEST_TOKEN or not token.isascii() or not token.isprintable():
        raise RefusedError(
            f"The token in {file} needs at least {_SHORTEST_TOKEN} printable ASCII characters. "
            f"Write one: openssl rand -hex 32 > {file}"
        )
    return token


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise RefusedError(
            f"Cannot listen on {host}, port {port}: {error.strerror}. Give another --port."
        ) from error


def _url(host: str, listener: socket.socket) -> str:
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{listener.getsockname()[1]}/"
