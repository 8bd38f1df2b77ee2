"""How does a result get from a load generator in a pod to whoever keeps it?

The result document goes to the pod's log as lines of text between two marks, and from there into
parts that a ConfigMap can hold. A `LoadReport` tells its summary, whatever became of the document.
"""

import re
import zlib
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256

LOG_BYTES = 8 * 1024 * 1024
"""The most that a packed document takes of a pod's log: kubelets keep 10 MiB by default."""
LINE_BYTES = 8 * 1024
"""The longest line of a packed document: container runtimes split lines of 16 KiB."""
PART_BYTES = 900 * 1024
"""The most that one ConfigMap holds of a document: 1 MiB is Kubernetes' own limit."""
DOCUMENT_BYTES = 8 * 1024 * 1024
"""The largest document that is handed over at all, so that no reader runs out of memory: read, one
takes 17 times its size, and the operator has 256 MiB."""

_PREFIX = "inferometer-result "
_TOO_LARGE = "too-large "
_CHUNK_BYTES = 6000  # a multiple of 3: base64 without padding, 8,000 characters
_BEGIN = re.compile(r"begin lines=([0-9]{1,6}) bytes=([0-9]{1,9}) sha256=([0-9a-f]{64})")
_LINE = re.compile(r"([1-9][0-9]{0,5}) ([A-Za-z0-9+/=]+)")
_GZIP = 31  # zlib's window bits for its largest window with gzip's head and checksum


class IncompleteError(ValueError):
    """A log does not hold the whole result document; the message is a sentence."""


class TooLargeError(ValueError):
    """A document is too large to be handed over; the message is a sentence."""


def packed(document: bytes, *, limit_bytes: int = LOG_BYTES) -> list[str]:
    """Return a document as lines of at most 8 KiB, without line ends, that `unpacked` understands.

    Raises TooLargeError where they would take more than `limit_bytes`, line ends included.
    """
    text = b64encode(compressed(document)).decode("ascii")
    step = _CHUNK_BYTES // 3 * 4
    chunks = [text[at : at + step] for at in range(0, len(text), step)]
    digest = sha256(document).hexdigest()
    lines = [
        f"{_PREFIX}begin lines={len(chunks)} bytes={len(document)} sha256={digest}",
        *(f"{_PREFIX}{number} {chunk}" for number, chunk in enumerate(chunks, start=1)),
        f"{_PREFIX}end sha256={digest}",
    ]
    size = sum(len(line) + 1 for line in lines)
    if size > limit_bytes or len(document) > DOCUMENT_BYTES:
        raise TooLargeError(
            f"The result document of {len(document)} bytes takes {size} bytes when it is packed, "
            f"and at most {limit_bytes} packed, {DOCUMENT_BYTES} unpacked, can be handed over."
        )
    return lines


def left_out(sentence: str) -> list[str]:
    """Return what stands in a log instead of a document that is too large, and says why."""
    return [f"{_PREFIX}{_TOO_LARGE}{' '.join(sentence.split())}"]


@dataclass(slots=True)
class _Unpacking:
    """What a log has told of a document so far."""

    lines: int
    size: int
    digest: str
    chunks: list[bytes]


def unpacked(lines: Iterable[str]) -> bytes:
    """Return the document that `packed` made, from a log that may have other lines between.

    Raises IncompleteError where a part of it is missing or was changed, TooLargeError where it was
    left out as too large.
    """
    found: _Unpacking | None = None
    for line in lines:
        text = line.rstrip("\r\n")
        if not text.startswith(_PREFIX):
            continue
        words = text.removeprefix(_PREFIX)
        if begin := _BEGIN.fullmatch(words):
            found = _Unpacking(int(begin[1]), int(begin[2]), begin[3], [])
        elif words.startswith(_TOO_LARGE) and found is None:
            raise TooLargeError(words.removeprefix(_TOO_LARGE))
        elif found is None:
            raise IncompleteError(
                "The log holds the end of a result document, but not its begin: its first lines "
                "are lost."
            )
        elif words == f"end sha256={found.digest}":
            return _document(found)
        else:
            found.chunks.append(_chunk(words, found))
    if found is None:
        raise IncompleteError("The log holds no result document.")
    raise IncompleteError(
        f"The log ends after {len(found.chunks)} of the {found.lines} lines of the result document."
    )


def _chunk(words: str, found: _Unpacking) -> bytes:
    due = len(found.chunks) + 1
    line = _LINE.fullmatch(words)
    if line is None or int(line[1]) != due or due > found.lines:
        raise IncompleteError(
            f"Line {due} of the {found.lines} lines of the result document was due in the log, but "
            f"{words[:40]!r} stands there."
        )
    try:
        chunk = b64decode(line[2], validate=True)
    except Base64Error:
        chunk = b""
    # Two spellings of the same bytes exist, of which one was written.
    if b64encode(chunk).decode("ascii") != line[2]:
        raise IncompleteError(
            f"Line {due} of the {found.lines} lines of the result document is garbled in the log."
        )
    return chunk


def _document(found: _Unpacking) -> bytes:
    if len(found.chunks) != found.lines:
        raise IncompleteError(
            f"The log holds {len(found.chunks)} of the {found.lines} lines of the result document."
        )
    document = decompressed(b"".join(found.chunks))
    if len(document) != found.size or sha256(document).hexdigest() != found.digest:
        raise IncompleteError(
            f"The result document in the log has {len(document)} bytes, {found.size} are told, or "
            f"its checksum differs from the one beside it: it was changed on its way."
        )
    return document


def compressed(document: bytes) -> bytes:
    """Return a document in gzip's format; the same document gives the same bytes."""
    gzip = zlib.compressobj(level=9, wbits=_GZIP)
    return gzip.compress(document) + gzip.flush()


def decompressed(gz: bytes) -> bytes:
    """Return what `compressed` was given; raises IncompleteError."""
    gzip = zlib.decompressobj(wbits=_GZIP)
    try:
        document = gzip.decompress(gz, DOCUMENT_BYTES + 1)
    except zlib.error as error:
        raise IncompleteError(f"The result document cannot be decompressed: {error}.") from error
    if not gzip.eof or gzip.unused_data or len(document) > DOCUMENT_BYTES:
        raise IncompleteError(
            f"The result document, compressed to {len(gz)} bytes, is cut, has something behind it, "
            f"or is larger than {DOCUMENT_BYTES} bytes."
        )
    return document


def parts(gz: bytes) -> list[bytes]:
    """Return compressed bytes in parts of at most 900 KiB, at least one."""
    return [gz[at : at + PART_BYTES] for at in range(0, len(gz), PART_BYTES)] or [b""]


def joined(all_parts: Sequence[bytes]) -> bytes:
    """Return what `parts` was given."""
    return b"".join(all_parts)
