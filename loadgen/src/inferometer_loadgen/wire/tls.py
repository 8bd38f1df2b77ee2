"""TLS client contexts, and the messages for handshakes that fail."""

import re
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NoReturn

_ALPN = {"HTTP": "http/1.1", "GRPC": "h2"}
_UNKNOWN_AUTHORITY = frozenset({2, 7, 18, 19, 20, 21, 24, 79})
"""OpenSSL's X509_V_ERR_* codes for a certificate without a trusted signature."""
_EXPIRED, _NOT_YET_VALID = 10, 9
_OTHER_NAME = frozenset({62, 64})
_OF_THE_CLIENT = re.compile(
    r"ALERT_(CERTIFICATE_\w+|HANDSHAKE_FAILURE|UNKNOWN_CA|BAD_CERTIFICATE|"
    r"UNSUPPORTED_CERTIFICATE|ACCESS_DENIED|DECRYPT_ERROR)"
)
"""TLS alerts with which a server rejects the client's certificate, or its absence."""
_NO_TLS = re.compile(r"WRONG_VERSION_NUMBER|RECORD_LAYER_FAILURE|HTTP_REQUEST|UNKNOWN_PROTOCOL")


class TlsRefusedError(ValueError):
    """TLS with a server is impossible; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files on this machine; None stands for the machine's default."""

    authority: Path | None = None
    """Authority that signs the server's certificate; None: the authorities this machine trusts."""
    certificate: Path | None = None
    """The client's certificate chain."""
    key: Path | None = None


@dataclass(frozen=True, slots=True)
class ClientTls:
    """TLS to one server: the context, and the name that its certificate must carry."""

    context: ssl.SSLContext = field(repr=False)
    server_name: str
    files: TlsFiles = TlsFiles()


def tls_context(protocol: Literal["HTTP", "GRPC"], files: TlsFiles) -> ssl.SSLContext:
    """Return a client context that offers HTTP/1.1 or, with gRPC, HTTP/2.

    Raises TlsRefusedError if a file is missing or does not hold what it should.
    """
    try:
        context = ssl.create_default_context(cafile=files.authority)
    except FileNotFoundError:
        raise _missing(files.authority, "load.tls.caFile or caSecret (its key ca.crt)") from None
    except (ssl.SSLError, OSError) as error:
        raise TlsRefusedError(
            f"{files.authority} holds no certificates in PEM ({_reason(error)}). Name the "
            "certificate of the authority that signs the server's certificate."
        ) from None
    # Accept the chains that Python accepted before 3.13: private authorities are often hand-made.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.set_alpn_protocols([_ALPN[protocol]])
    if files.certificate is not None:
        _load_client_certificate(context, files.certificate, files.key)
    return context


def _load_client_certificate(context: ssl.SSLContext, certificate: Path, key: Path | None) -> None:
    """Load the client's certificate and key; raises TlsRefusedError."""
    for file in (certificate, key):
        if file is not None and not file.is_file():
            raise _missing(
                file,
                "load.tls.clientCertificateFile and clientKeyFile, or clientSecret (its keys "
                "tls.crt and tls.key)",
            )
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except (ssl.SSLError, OSError) as error:
        detail = "the key does not match" if "MISMATCH" in str(error) else _reason(error)
        raise TlsRefusedError(
            f"The client's certificate {certificate} and its key {key} cannot be used ({detail}). "
            "Both must be PEM and belong together."
        ) from None


def _no_password() -> NoReturn:
    raise TlsRefusedError(
        "The client's key is protected by a password, which cannot be entered here. Name a key "
        "without a password."
    )


def _missing(file: Path | None, where: str) -> TlsRefusedError:
    return TlsRefusedError(f"There is no file {file}, which {where} names.")


def handshake_error(error: ssl.SSLError, where: str, tls: ClientTls) -> TlsRefusedError:
    """Return the error of a handshake that failed for good; `where` is HOST:PORT."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return TlsRefusedError(_untrusted_message(error, where, tls))
    reason = error.reason or ""
    if _OF_THE_CLIENT.search(reason):
        return client_certificate_error(where, tls)
    if _NO_TLS.search(reason):
        return TlsRefusedError(
            f"The server at {where} does not use TLS on this port. Write http:// or grpc:// and "
            "remove load.tls, or name its TLS port."
        )
    return TlsRefusedError(f"TLS with the server at {where} failed: {_reason(error)}.")


def client_certificate_error(where: str, tls: ClientTls) -> TlsRefusedError:
    """Return the error of a server that rejects the client's certificate, or its absence."""
    shown = tls.files.certificate
    if shown is None:
        return TlsRefusedError(
            f"The server at {where} requires a client certificate, and none is configured. Set "
            "load.tls.clientCertificateFile and clientKeyFile, or in a cluster "
            "load.tls.clientSecret."
        )
    return TlsRefusedError(
        f"The server at {where} rejects the client certificate {shown}. Name one in load.tls that "
        "is signed by an authority that the server trusts."
    )


def _untrusted_message(error: ssl.SSLCertVerificationError, where: str, tls: ClientTls) -> str:
    code, detail = error.verify_code, error.verify_message
    if code in _OTHER_NAME:
        return (
            f"The certificate of the server at {where} is not for {tls.server_name} ({detail}). "
            "Set load.tls.serverName to a name that it carries."
        )
    if code in {_EXPIRED, _NOT_YET_VALID}:
        when = "has expired" if code == _EXPIRED else "is not valid yet"
        return (
            f"The certificate of the server at {where} {when} ({detail}). Renew it on the server, "
            "or correct this machine's clock."
        )
    if code in _UNKNOWN_AUTHORITY:
        by = tls.files.authority
        trusted = "this machine trusts" if by is None else f"is in {by}"
        return (
            f"The certificate of the server at {where} is signed by no authority that {trusted} "
            f"({detail}). Name its authority's certificate in load.tls.caFile, or in a cluster in "
            "load.tls.caSecret."
        )
    return f"The certificate of the server at {where} cannot be trusted: {detail}."


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    return error.strerror or str(error)
