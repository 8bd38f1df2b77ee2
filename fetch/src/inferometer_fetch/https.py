"""Streams of files on web servers, with permanent and transient faults distinguished."""

import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from http import HTTPStatus
from http.client import HTTPException, HTTPMessage, InvalidURL
from typing import IO

from typing_extensions import override

from inferometer_fetch.transfer import CHUNK_BYTES, TransientError
from inferometer_models.errors import ModelRefusedError

_STALL_SECONDS = 30.0
_NOT_HTTPS = "it redirects to an address that is not https"
_PASSING_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})


def https_stream(
    what: str,
    uri: str,
    *,
    first_byte: int = 0,
    report_size: Callable[[int], None] | None = None,
) -> Iterator[bytes]:
    """Yield the content of an https:// address from `first_byte` on.

    `report_size` gets the bytes of the whole content before the first of them, if the host names
    them.

    Raises TransientError if another try may succeed, also if the content ends early, and
    ModelRefusedError if it cannot: no such file or host, an untrusted certificate, a redirect to
    another scheme.
    """
    with _open(what, uri, first_byte) as response:
        is_part = getattr(response, "status", None) == HTTPStatus.PARTIAL_CONTENT
        length = getattr(response, "length", None)
        if report_size is not None and length is not None:
            report_size(length + first_byte if is_part else length)
        unwanted = 0 if is_part else first_byte
        while chunk := _read(what, response):
            wanted = chunk[unwanted:]
            unwanted -= min(unwanted, len(chunk))
            if wanted:
                yield wanted
        missing = getattr(response, "length", None)  # http.client accepts a short body
        if missing:
            raise TransientError(f"it ended {missing:,} bytes early")


class _SecureRedirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects to https only: model hosts redirect to their stores."""

    @override
    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        if not newurl.lower().startswith("https://"):
            fp.close()
            raise _PermanentError(_NOT_HTTPS)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class _PermanentError(urllib.error.URLError):
    """A fault that occurs at every try."""


def _open(what: str, uri: str, first_byte: int) -> IO[bytes]:
    opener = urllib.request.build_opener(_SecureRedirects())
    if first_byte:
        opener.addheaders.append(("Range", f"bytes={first_byte}-"))
    try:
        response: IO[bytes] = opener.open(uri, timeout=_STALL_SECONDS)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code in _PASSING_STATUSES:
            raise TransientError(_status(error.code)) from error
        raise _refused(what, _status(error.code)) from error
    except (HTTPException, OSError, ValueError) as error:
        raise _fault(what, error) from error
    return response


def _read(what: str, response: IO[bytes]) -> bytes:
    try:
        return response.read(CHUNK_BYTES)
    except (HTTPException, OSError) as error:
        raise _fault(what, error) from error


def _status(code: int) -> str:
    """Return a status in words of ours: the host's may be anything."""
    if 300 <= code < 400:
        return _NOT_HTTPS
    try:
        return f"HTTP {code} ({HTTPStatus(code).phrase})"
    except ValueError:
        return f"HTTP {code}"


def _fault(what: str, error: Exception) -> Exception:
    reason = getattr(error, "reason", None) or error
    if isinstance(reason, HTTPException) and not isinstance(reason, InvalidURL):
        # Its text quotes what the host sent, which may be no web server.
        return TransientError(f"the host does not speak HTTP ({type(reason).__name__})")
    if _stays(error) or _stays(reason):
        return _refused(what, reason)
    return TransientError(str(reason) or type(reason).__name__)


def _stays(error: object) -> bool:
    match error:
        case _PermanentError() | ssl.SSLCertVerificationError():
            return True
        case socket.gaierror():
            return error.errno == socket.EAI_NONAME
        case _:
            # The address is no URL: it has no host or a malformed port.
            return isinstance(error, (InvalidURL, ValueError))


def _refused(what: str, reason: object) -> ModelRefusedError:
    return ModelRefusedError(
        f"The {what} cannot be fetched: {reason}. Check the address and the network."
    )
