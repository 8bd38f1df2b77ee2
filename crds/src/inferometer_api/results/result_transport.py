"""Transport of a result document: as lines in the log of a pod, and in parts for ConfigMaps.

The load generator writes the document to the log of its pod, as lines of text between two marks.
The operator reads the log and stores the document in ConfigMaps.
"""

import re
import zlib
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256

LOG_BYTES = 8 * 1024 * 1024
"""Maximum size of an encoded document in the log: kubelets keep 10 MiB by default."""
LINE_BYTES = 8 * 1024
"""Longest line of an encoded document: container runtimes split lines of 16 KiB."""
PART_BYTES = 900 * 1024
"""Maximum part of a document in one ConfigMap: Kubernetes limits it to 1 MiB."""
DOCUMENT_BYTES = 8 * 1024 * 1024
"""Largest document that is transferred: in memory a document takes 17 times its size, and the
operator has 256 MiB."""

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


def encode_for_log(document: bytes, *, limit_bytes: int = LOG_BYTES) -> list[str]:
    """Return a document as lines of at most 8 KiB, without line ends, for `decode_log`.

    Raises TooLargeError if they would take more than `limit_bytes`, line ends included.
    """
    text = b64encode(compress(document)).decode("ascii")
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


def omission_lines(sentence: str) -> list[str]:
    """Return the lines that replace a document which is too large, and say why."""
    return [f"{_PREFIX}{_TOO_LARGE}{' '.join(sentence.split())}"]


@dataclass(slots=True)
class _Unpacking:
    """The part of a document that was read from a log so far."""

    lines: int
    size: int
    digest: str
    chunks: list[bytes]


def decode_log(lines: Iterable[str]) -> bytes:
    """Return the document of `encode_for_log`, from a log that may have other lines in between.

    Raises IncompleteError if a part of it is missing or modified, TooLargeError if it was omitted
    because of its size.
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
                "The log holds the end of a result document, but not its start: the first lines "
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
    document = decompress(b"".join(found.chunks))
    if len(document) != found.size or sha256(document).hexdigest() != found.digest:
        raise IncompleteError(
            f"The result document in the log has {len(document)} bytes instead of "
            f"{found.size}, or another checksum: it was modified in transfer."
        )
    return document


def compress(document: bytes) -> bytes:
    """Return a document in gzip's format; the same document gives the same bytes."""
    gzip = zlib.compressobj(level=9, wbits=_GZIP)
    return gzip.compress(document) + gzip.flush()


def decompress(gz: bytes) -> bytes:
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


def split_parts(gz: bytes) -> list[bytes]:
    """Return compressed bytes in parts of at most 900 KiB, at least one."""
    return [gz[at : at + PART_BYTES] for at in range(0, len(gz), PART_BYTES)] or [b""]


def join_parts(all_parts: Sequence[bytes]) -> bytes:
    """Return the bytes that `split_parts` split."""
    return b"".join(all_parts)
