"""Address of a server, and how to talk to it."""

from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

from inferometer_api.plan.cluster_objects import DEFAULT_PORTS
from inferometer_loadgen.requests.inputs import InputRefusedError
from inferometer_loadgen.server.headers import Headers
from inferometer_loadgen.wire.tls import ClientTls


@dataclass(frozen=True, slots=True)
class ServerEndpoint:
    """The address of a server, and how to talk to it."""

    protocol: Literal["HTTP", "GRPC"]
    host: str
    port: int
    path_prefix: str
    tls: ClientTls | None = None
    """None: without TLS."""
    headers: Headers = field(default=(), repr=False)
    """Sent with every request, in addition to its own headers."""

    @property
    def address(self) -> str:
        """Host, port and path in the form of tritonclient."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}{self.path_prefix}"


def scheme_of(protocol: Literal["HTTP", "GRPC"]) -> str:
    """Return the scheme of the URLs of a protocol without TLS; with TLS an s follows."""
    return "grpc" if protocol == "GRPC" else "http"


def endpoint_of(url: str, protocol: Literal["HTTP", "GRPC"]) -> ServerEndpoint:
    """Parse a server's URL; raises InputRefusedError if it does not fit the protocol."""
    scheme = scheme_of(protocol)
    if not url.startswith((f"{scheme}://", f"{scheme}s://")):
        raise InputRefusedError(
            f"load.protocol is {protocol}, which needs a URL with {scheme}:// or {scheme}s://, but "
            f"the server's is {url}: change one of them."
        )
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:  # brackets that hold no address
        host = None
    if not host:
        raise InputRefusedError(f"{url} names no host: write {scheme}://HOST:PORT.")
    try:
        port = parts.port
    except ValueError:
        port = 0
    if port == 0:
        raise InputRefusedError(
            f"{url} names no port that there is: write one from 1 to 65535, as "
            f"{scheme}://HOST:PORT."
        )
    return ServerEndpoint(
        protocol, host, port or DEFAULT_PORTS[parts.scheme], parts.path.rstrip("/")
    )
