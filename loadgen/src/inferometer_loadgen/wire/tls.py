"""With which certificates is TLS spoken to a server, and why does a server not take it?"""

import re
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NoReturn

_ALPN = {"HTTP": "http/1.1", "GRPC": "h2"}
_UNKNOWN_AUTHORITY = frozenset({2, 7, 18, 19, 20, 21, 24, 79})
"""OpenSSL's X509_V_ERR_* that say: signed by nobody who is trusted."""
_EXPIRED, _NOT_YET_VALID = 10, 9
_OTHER_NAME = frozenset({62, 64})
_OF_THE_CLIENT = re.compile(
    r"ALERT_(CERTIFICATE_\w+|HANDSHAKE_FAILURE|UNKNOWN_CA|BAD_CERTIFICATE|"
    r"UNSUPPORTED_CERTIFICATE|ACCESS_DENIED|DECRYPT_ERROR)"
)
"""What servers answer to a client's certificate, or to none."""
_NO_TLS = re.compile(r"WRONG_VERSION_NUMBER|RECORD_LAYER_FAILURE|HTTP_REQUEST|UNKNOWN_PROTOCOL")


class TlsRefusedError(ValueError):
    """TLS cannot be spoken with a server; the message is a sentence that says what to do."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files on this machine; a file that is absent leaves what the machine has."""

    authority: Path | None = None
    """Who signs the server's certificate; None: whom the machine trusts."""
    certificate: Path | None = None
    """The client's own, with whatever stands between it and its authority."""
    key: Path | None = None


@dataclass(frozen=True, slots=True)
class Tls:
    """How TLS is spoken to one server: the context, and the name its certificate must carry."""

    context: ssl.SSLContext = field(repr=False)
    server_name: str
    files: TlsFiles = TlsFiles()


def tls_context(protocol: Literal["HTTP", "GRPC"], files: TlsFiles) -> ssl.SSLContext:
    """Return the context of a client, which offers HTTP/1.1 or, with gRPC, HTTP/2.

    Raises TlsRefusedError where a file is missing or holds something else.
    """
    try:
        context = ssl.create_default_context(cafile=files.authority)
    except FileNotFoundError:
        raise _missing(files.authority, "load.tls.caFile or caSecret (its key ca.crt)") from None
    except (ssl.SSLError, OSError) as error:
        raise TlsRefusedError(
            f"{files.authority} holds no certificates in PEM ({_told(error)}): name the "
            "certificate of the authority that signs the server's."
        ) from None
    # Chains that OpenSSL took until Python 3.13: an own authority is often made by hand.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.set_alpn_protocols([_ALPN[protocol]])
    if files.certificate is not None:
        _show(context, files.certificate, files.key)
    return context


def _show(context: ssl.SSLContext, certificate: Path, key: Path | None) -> None:
    """Let the context show the client's certificate; raises TlsRefusedError."""
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
        said = "the key is another certificate's" if "MISMATCH" in str(error) else _told(error)
        raise TlsRefusedError(
            f"The client's certificate {certificate} and its key {key} cannot be used ({said}): "
            "both must be PEM and belong together."
        ) from None


def _no_password() -> NoReturn:
    raise TlsRefusedError(
        "The client's key is locked by a password, which nobody is there to type: name a key "
        "without one."
    )


def _missing(file: Path | None, where: str) -> TlsRefusedError:
    return TlsRefusedError(f"There is no file {file}, which is asked for by {where}.")


def handshake_error(error: ssl.SSLError, where: str, tls: Tls) -> TlsRefusedError:
    """Return the sentence of a handshake that failed for good; `where` is HOST:PORT."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return TlsRefusedError(_unproved(error, where, tls))
    reason = error.reason or ""
    if _OF_THE_CLIENT.search(reason):
        return client_certificate_error(where, tls)
    if _NO_TLS.search(reason):
        return TlsRefusedError(
            f"The server at {where} speaks no TLS at this port ({_told(error)}): write http:// or "
            "grpc:// and leave load.tls out, or name its TLS port."
        )
    return TlsRefusedError(f"TLS with the server at {where} failed: {_told(error)}.")


def client_certificate_error(where: str, tls: Tls) -> TlsRefusedError:
    """Return the sentence of a server that does not take the client's certificate, or its want."""
    shown = tls.files.certificate
    if shown is None:
        return TlsRefusedError(
            f"The server at {where} wants a client's certificate, and none is given: name one in "
            "load.tls, by clientCertificateFile and clientKeyFile, in a cluster by clientSecret."
        )
    return TlsRefusedError(
        f"The server at {where} refuses the client's certificate {shown}: name one in load.tls "
        "that is signed by an authority that the server trusts."
    )


def _unproved(error: ssl.SSLCertVerificationError, where: str, tls: Tls) -> str:
    code, said = error.verify_code, error.verify_message
    if code in _OTHER_NAME:
        return (
            f"The certificate of the server at {where} is not for {tls.server_name} ({said}): set "
            "load.tls.serverName to a name that it carries."
        )
    if code in {_EXPIRED, _NOT_YET_VALID}:
        when = "has expired" if code == _EXPIRED else "is not valid yet"
        return (
            f"The certificate of the server at {where} {when} ({said}): renew it at the server, "
            "or set this machine's clock."
        )
    if code in _UNKNOWN_AUTHORITY:
        by = tls.files.authority
        trusted = "this machine trusts" if by is None else f"stands in {by}"
        return (
            f"The certificate of the server at {where} is signed by no authority that {trusted} "
            f"({said}): name its authority's certificate in load.tls.caFile, in a cluster in "
            "load.tls.caSecret."
        )
    return f"The certificate of the server at {where} cannot be trusted: {said}."


def _told(error: OSError) -> str:
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    return error.strerror or str(error)
