"""Reasons why a server did not answer on its control plane, with hints at the right port."""

from typing import Literal

import aiohttp
from tritonclient.utils import (  # type: ignore[import-untyped]  # has no types
    InferenceServerException,
)

from inferometer_loadgen.server.tls_handshake import ClosedBehindError, ClosedInTlsError
from inferometer_loadgen.wire.contract import printable_line
from inferometer_loadgen.wire.tls import ClientTls

FAULTS = (InferenceServerException, aiohttp.ClientError, OSError, TimeoutError)
"""Errors of a request to a server that is not ready, or not there."""


def reason_unanswered(
    fault: BaseException,
    protocol: Literal["HTTP", "GRPC"],
    tls: ClientTls | None,
    timeout_seconds: float,
) -> str:
    """Return the reason as a clause; its hint fits the protocol and the use of TLS."""
    if isinstance(fault, TimeoutError):
        return f"it did not answer within {timeout_seconds:g} s"
    if isinstance(fault, ClosedInTlsError):
        return f"{fault}; {_closed_in_tls(fault, protocol, tls)}"
    if isinstance(fault, aiohttp.ClientConnectorError):
        fault = fault.os_error
    elif isinstance(fault, (aiohttp.ClientConnectionError, aiohttp.ClientResponseError)):
        other = "(grpc://), or one with TLS (https://)" if tls is None else "(grpcs://)"
        return f"it gave no answer in HTTP; this may be its gRPC port {other}"
    if isinstance(fault, OSError):
        return f"there is no connection to it ({fault.strerror or fault})"
    return _in_words(fault, tls)


def _closed_in_tls(
    fault: ClosedInTlsError, protocol: Literal["HTTP", "GRPC"], tls: ClientTls | None
) -> str:
    shown = tls is not None and tls.files.certificate is not None
    wish = f"it may {'refuse the' if shown else 'want a'} client's certificate (load.tls)"
    if isinstance(fault, ClosedBehindError):
        return wish
    scheme = "grpc" if protocol == "GRPC" else "http"
    return f"{wish}, or this may be a port without TLS ({scheme}://)"


def _in_words(fault: BaseException, tls: ClientTls | None) -> str:
    # A server's own message is whatever its JSON holds.
    words = fault.message() if isinstance(fault, InferenceServerException) else fault
    words = str(words or type(fault).__name__)
    if "Failed parsing HTTP/2" in words:
        scheme = "http" if tls is None else "https"
        return f"it gave no answer in gRPC; this may be its HTTP port ({scheme}://)"
    hint = "; this may be a port with TLS (grpcs://)"
    is_cut = tls is None and "Socket closed" in words
    return printable_line(words).rstrip(".") + (hint if is_cut else "")
