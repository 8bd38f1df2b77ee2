"""Reader of the headers that every request carries.

Headers may be secret: errors contain their names and never their values.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from inferometer_loadgen.requests.inputs import InputRefusedError

Headers = tuple[tuple[str, str], ...]

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[ -~]*")
_OWN = frozenset(
    {
        *("accept-encoding", "content-encoding", "content-length", "content-type", "host"),
        *("inference-header-content-length", "user-agent"),
    }
)
_OF_CONNECTIONS = frozenset(
    {
        *("connection", "expect", "keep-alive", "proxy-connection", "te", "trailer"),
        *("transfer-encoding", "upgrade", "http2-settings"),
    }
)
_OF_GRPC = "grpc-"
_BINARY = "-bin"
_MOST, _MOST_BYTES = 64, 16_384


def read_headers(path: Path) -> Headers:
    """Return the headers of a file of `Name: value` lines, or of a folder with a file for each.

    Raises InputRefusedError if one is malformed, occurs twice, or is one that the load generator
    sends itself.
    """
    try:
        found = list(_in_folder(path) if path.is_dir() else _in_file(path))
    except FileNotFoundError:
        raise InputRefusedError(f"Headers file not found: {path}.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputRefusedError(f"The headers in {path} are not readable text: {error}.") from None
    seen: set[str] = set()
    for name, value in found:
        fault = _fault(name, value)
        if name.lower() in seen:
            fault = "occurs twice"
        if fault is not None:
            raise InputRefusedError(f"The header {name!r} in {path} {fault}.")
        seen.add(name.lower())
    total = sum(len(name) + len(value) for name, value in found)
    if len(found) > _MOST or total > _MOST_BYTES:
        raise InputRefusedError(
            f"The {len(found)} headers in {path} have {total} bytes; at most {_MOST} headers of "
            f"{_MOST_BYTES} bytes in all are sent."
        )
    return tuple(found)


def _text(path: Path) -> str:
    """Return a file's text as it is: a lone carriage return does not end a line."""
    return path.read_bytes().decode()


def _in_file(path: Path) -> Iterable[tuple[str, str]]:
    for number, line in enumerate(_text(path).split("\n"), 1):
        name, colon, value = line.removesuffix("\r").partition(":")
        if not name.strip() and not colon:
            continue
        if not colon:
            raise InputRefusedError(
                f"Line {number} of {path} is not a header: write `Name: value`."
            )
        yield name, value.strip(" \t")


def _in_folder(path: Path) -> Iterable[tuple[str, str]]:
    for file in sorted(path.iterdir()):
        # A mounted Secret keeps its data in folders with such names.
        if not file.name.startswith(".."):
            yield file.name, _text(file).removesuffix("\n").strip(" \t")


def _fault(name: str, value: str) -> str | None:
    lower = name.lower()
    faults = (
        (not _NAME.fullmatch(name), "has an invalid name: use letters, digits and hyphens"),
        (lower in _OWN, "is one that the load generator sends itself: leave it out"),
        (lower in _OF_CONNECTIONS, "is about one connection, not about requests: leave it out"),
        (lower.startswith(_OF_GRPC), "is reserved for gRPC: leave it out"),
        (lower.endswith(_BINARY), "would be binary metadata of gRPC, which is not supported"),
        (not _VALUE.fullmatch(value), "has a value that is not printable ASCII"),
    )
    return next((words for found, words in faults if found), None)
