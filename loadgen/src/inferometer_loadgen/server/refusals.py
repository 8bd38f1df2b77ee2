"""Errors of a server that cannot be measured, and their sentences."""

from inferometer_loadgen.server.control_calls import (
    AnswerError,
    AnswerKind,
    CallError,
    UnreadableBodyError,
)
from inferometer_loadgen.server.endpoint import ServerEndpoint, scheme_of
from inferometer_loadgen.server.port_probe import PortProtocol
from inferometer_loadgen.server.tls_handshake import ClosedBehindError, ClosedInTlsError
from inferometer_loadgen.wire.contract import connection_error_text

ATTEMPT_SECONDS = 5.0
"""The longest that one call may take."""


class ServerNotReadyError(RuntimeError):
    """The server was not ready in time, or was lost."""


class ModelNotServedError(ValueError):
    """The server does not serve the requested model."""


class ProtocolMismatchError(ValueError):
    """The port speaks another protocol than the requested one."""


class AccessDeniedError(ValueError):
    """The server rejects the credentials, or their absence."""


def no_inference_protocol(at: ServerEndpoint, clause: str) -> ProtocolMismatchError:
    """Return the error of a server that has none of the protocol's paths or methods."""
    advice = "Name an inference server in spec.server.external"
    if at.protocol == "HTTP":
        advice += ", with the path before /v2 if there is one"
    return ProtocolMismatchError(
        f"The server at {at.address} does not speak the Open Inference Protocol: {clause}. "
        f"{advice}."
    )


def every_call_rejected(at: ServerEndpoint, clause: str) -> ProtocolMismatchError:
    """Return the error of a server that answers 400 to readiness and metadata alike."""
    return ProtocolMismatchError(
        f"The server at {at.address} rejects every request for its state: {clause}. Correct the "
        "address in spec.server.external, or set load.headersFile to headers that it requires."
    )


def final_error(error: CallError, at: ServerEndpoint) -> Exception | None:
    """Return the error of a run if the failure of a call cannot heal."""
    if isinstance(error, UnreadableBodyError):
        return ProtocolMismatchError(
            f"The answers of the server at {at.address} cannot be read: {error}. Correct the "
            "compression of the server or of the proxy in front of it: only gzip and deflate can "
            "be read."
        )
    if not isinstance(error, AnswerError):
        return None
    if error.kind is AnswerKind.DENIED:
        return AccessDeniedError(
            f"The server at {at.address} denies access: {error}. Set load.headersFile, or in a "
            "cluster load.headersSecret, to headers with valid credentials."
        )
    if error.kind is AnswerKind.WANTS_TLS:
        return other_protocol(at, PortProtocol.TLS, f": {error}")
    return None


def other_protocol(
    at: ServerEndpoint, found: PortProtocol, evidence: str = ""
) -> ProtocolMismatchError:
    """Return the error of a port that speaks another protocol; `evidence` begins with a colon."""
    scheme = scheme_of(at.protocol)
    if found is PortProtocol.TLS:
        return ProtocolMismatchError(
            f"The server at {at.address} uses TLS on this port{evidence}. Write {scheme}s:// "
            f"instead of {scheme}://, or name its port without TLS."
        )
    other, protocol = ("http", "HTTP") if found is PortProtocol.HTTP1 else ("grpc", "GRPC")
    if at.tls is not None:
        return ProtocolMismatchError(
            f"The server at {at.address} speaks {found.value} without TLS on this port{evidence}. "
            f"Write {other}:// with load.protocol: {protocol}, or name its port for {scheme}s://."
        )
    return ProtocolMismatchError(
        f"The server at {at.address} speaks {found.value} on this port, and not "
        f"{'gRPC' if at.protocol == 'GRPC' else 'HTTP/1.1'}{evidence}. Write {other}:// with "
        f"load.protocol: {protocol}, or name its port for {scheme}://."
    )


def failure_clause(fault: BaseException, at: ServerEndpoint) -> str:
    """Return why a call failed, as a clause; a hint fits the protocol and the use of TLS."""
    if isinstance(fault, CallError):
        return str(fault)
    if isinstance(fault, TimeoutError):
        return f"it did not answer within {ATTEMPT_SECONDS:g} s"
    if isinstance(fault, ClosedInTlsError):
        return f"{fault}; {_closed_in_tls(fault, at)}"
    if isinstance(fault, OSError):
        return f"there is no connection to it ({connection_error_text(fault)})"
    return str(fault)


def _closed_in_tls(fault: ClosedInTlsError, at: ServerEndpoint) -> str:
    shown = at.tls is not None and at.tls.files.certificate is not None
    wish = f"it may {'refuse the' if shown else 'want a'} client's certificate (load.tls)"
    if isinstance(fault, ClosedBehindError):
        return wish
    return f"{wish}, or this may be a port without TLS ({scheme_of(at.protocol)}://)"


def hint(at: ServerEndpoint) -> str:
    """Return what else a port may be that gives no answer in the protocol and names no other."""
    if at.protocol == "HTTP":
        other = "(grpc://), or one with TLS (https://)" if at.tls is None else "(grpcs://)"
        return f"this may be its gRPC port {other}"
    return f"this may be its HTTP port ({'http' if at.tls is None else 'https'}://)"
