"""Does a server let us in by TLS?

Asked once, before its control plane: what refuses a certificate refuses it for ever, and is told at
once, in the words of the one place that knows TLS.
"""

import asyncio
import ssl
from typing import Literal

from inferometer_loadgen.wire.tls import Tls, TlsRefusedError, refused_by_tls

_HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_EMPTY_SETTINGS = b"\0\0\0\4\0\0\0\0\0"


async def knock(protocol: Literal["HTTP", "GRPC"], host: str, port: int, tls: Tls) -> None:
    """Shake hands and wait for the first byte of the server's own.

    Raises TlsRefusedError where that fails for good, OSError where the server is not there.
    """
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        reader, writer = await asyncio.open_connection(
            host, port, ssl=tls.context, server_hostname=tls.server_name
        )
        try:
            if protocol == "GRPC":
                _check_http2(writer, where)
            # With TLS 1.3 a certificate that is missing is told only behind the handshake.
            writer.write(_hello(protocol, where))
            if not await reader.read(1):
                raise ConnectionResetError("it closed the connection behind the handshake")
        finally:
            writer.transport.abort()
    except ssl.SSLEOFError as error:
        raise ConnectionResetError("it closed the connection during the handshake") from error
    except ssl.SSLError as error:
        raise refused_by_tls(error, where, tls) from error


def _hello(protocol: Literal["HTTP", "GRPC"], where: str) -> bytes:
    if protocol == "GRPC":
        return _HTTP2_PREFACE + _EMPTY_SETTINGS
    # Anything that is answered does: the answer itself is not read.
    lines = ("GET /v2/health/live HTTP/1.1", f"Host: {where}", "Connection: close", "", "")
    return "\r\n".join(lines).encode("ascii", "replace")


def _check_http2(writer: asyncio.StreamWriter, where: str) -> None:
    spoken = writer.get_extra_info("ssl_object").selected_alpn_protocol()
    if spoken != "h2":
        raise TlsRefusedError(
            f"The server at {where} does not offer HTTP/2 over TLS (ALPN h2), which gRPC needs: is "
            "this its HTTP port (https://)?"
        )
