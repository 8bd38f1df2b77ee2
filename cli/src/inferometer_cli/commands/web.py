"""`inferometer web`: the pages of a cluster's results service, on loopback."""

import signal
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import unquote

import typer
from typing_extensions import override

from inferometer_cli.cluster.options import ClusterOptions, ContextOption, KubeconfigOption
from inferometer_cli.exits import FailedError, RefusedError
from inferometer_cli.terminal import print_message

if TYPE_CHECKING:
    from inferometer_cli.cluster.results_service import ResultsService

_LOOPBACK = "127.0.0.1"
_RETURNED = frozenset(
    {
        *("cache-control", "content-disposition", "content-security-policy", "content-type"),
        *("cross-origin-opener-policy", "cross-origin-resource-policy", "etag", "location"),
        *("permissions-policy", "referrer-policy", "x-content-type-options", "x-frame-options"),
    }
)
"""Headers of an answer that reach the browser; the others belong to the connection."""
_READS = frozenset({"GET", "HEAD"})
_MOST_SECONDS = 60.0


def web(
    path: Annotated[
        str,
        typer.Argument(metavar="PATH", help="Page to name in the address, such as /results/ID."),
    ] = "/",
    *,
    port: Annotated[
        int,
        typer.Option("--port", min=0, max=65535, metavar="PORT", help="Port; 0 takes a free one."),
    ] = 8091,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Serve the pages of the cluster's results service on this machine, with your own rights.

    Everyone who can log in to this machine can read them as long as the command runs. Ends on
    Ctrl-C or SIGTERM.
    """
    from inferometer_cli.cluster.api import connect
    from inferometer_cli.cluster.results_service import ResultsService

    service = ResultsService(connect(ClusterOptions(None, context, kubeconfig)))
    service.check()
    try:
        server = ThreadingHTTPServer((_LOOPBACK, port), _handler(service))
    except OSError as error:
        raise RefusedError(
            f"Cannot listen on {_LOOPBACK}, port {port}: {error.strerror}. Give another --port."
        ) from error
    server.daemon_threads = True
    with server:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: threading.Thread(target=server.shutdown).start())
        address = f"http://{_LOOPBACK}:{server.server_port}/{path.lstrip('/')}"
        print_message(f"Results of the cluster: {address} (Ctrl-C ends it)")
        server.serve_forever()


def _is_plain(target: str) -> bool:
    """Return whether a path stays below the service's: with dots it could lead out of it."""
    path = unquote(target.partition("?")[0])
    return path.startswith("/") and not {".", ".."} & set(path.replace("\\", "/").split("/"))


def _handler(service: "ResultsService") -> type[BaseHTTPRequestHandler]:
    from inferometer_results.service.access.rules import AccessRules, RefusedRequest, refusal

    rules = AccessRules()

    class Handler(BaseHTTPRequestHandler):
        """Answers a browser of this machine; pages of other sites get nothing."""

        protocol_version = "HTTP/1.1"
        server_version = "inferometer"
        sys_version = ""
        timeout = _MOST_SECONDS

        def do_GET(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            refused = refusal(self.command, len(self.path), headers, rules)
            if refused is None and not _is_plain(self.path):
                refused = RefusedRequest(400, "The address is not that of a page.")
            if refused is not None:
                self._answer(refused.status, {}, f"{refused.sentence}\n".encode())
                return
            try:
                status, found, body = service.page(self.path, headers)
            except (FailedError, RefusedError) as error:
                self._answer(502, {}, f"{error}\n".encode())
                return
            kept = {name: value for name, value in found.items() if name.lower() in _RETURNED}
            self._answer(status, kept, body)

        do_HEAD = do_GET  # noqa: N815 - the name that the library calls
        do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815 - refused like the rest

        def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
            # A body that was refused is not read.
            self.close_connection = self.close_connection or self.command not in _READS
            self.send_response(status)
            for name, value in ({"Content-Type": "text/plain; charset=utf-8"} | headers).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        @override
        def log_message(self, format: str, *args: Any) -> None:
            """Print nothing for each request."""

    return Handler
