"""Transport of a result document: as lines in the log of a pod, and in parts for ConfigMaps.

The load generator writes the document to the log of its pod, as lines of text between two marks.
The operator reads the log and stores the document in ConfigMaps.
"""

import re
import zlib
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Iterable, Sequence
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

_MOST_OBJECTS = 80_000
_MOST_VALUES = 600_000
"""Of JSON in a document. The largest documents of windows and samples have half as many; a document
of small objects would take a hundred times its size in memory."""

_PREFIX = "inferometer-result "
_TOO_LARGE = "too-large "
_CHUNK_BYTES = 6000  # a multiple of 3: base64 without padding, 8,000 characters
_BEGIN = re.compile(r"begin lines=([0-9]{1,6}) bytes=([0-9]{1,9}) sha256=([0-9a-f]{64})")
_LINE = re.compile(r"([1-9][0-9]{0,5}) ([A-Za-z0-9+/=]+)")
_MARK = b"\n" + _PREFIX.encode()
_STEP_BYTES = 64 * 1024
"""How much is decompressed at once: a few bytes may stand for megabytes."""
_GZIP = 31  # zlib's window bits for its largest window with gzip's head and checksum


class IncompleteError(ValueError):
    """A log does not hold the whole result document; the message is a sentence."""


class TooLargeError(ValueError):
    """A document is too large to be handed over; the message is a sentence."""


def encode_for_log(document: bytes, *, limit_bytes: int = LOG_BYTES) -> list[str]:
    """Return a document as lines of at most 8 KiB, without line ends, for `decode_log`.

    Raises TooLargeError if they would take more than `limit_bytes`, line ends included, or if
    `check_values` does.
    """
    check_values(document)
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


def check_values(document: bytes | bytearray) -> None:
    """Raise TooLargeError if a JSON document would take too much memory in its reader."""
    objects = document.count(b"{") - document.count(b"{}")
    values = document.count(b",")
    if objects > _MOST_OBJECTS or values > _MOST_VALUES:
        raise TooLargeError(
            f"The result document has {objects} objects and {values} values, and at most "
            f"{_MOST_OBJECTS} and {_MOST_VALUES} can be handed over."
        )


def omission_lines(sentence: str) -> list[str]:
    """Return the lines that replace a document which is too large, and say why."""
    return [f"{_PREFIX}{_TOO_LARGE}{' '.join(sentence.split())}"]


class LogDecoder:
    """Decodes the document of `encode_for_log` while its log arrives, in pieces of any size.

    The log may have other lines in between. They are dropped at once: of any log, this holds the
    document, one of its lines, and little else.
    """

    def __init__(self) -> None:
        self._rest = b"\n"
        self._begun: _Unpacking | None = None
        self._document: bytearray | None = None

    def feed(self, piece: bytes) -> bool:
        """Take the next piece of the log; return whether more of it is needed.

        Raises IncompleteError if a line of the document is missing or modified, TooLargeError if
        the document was omitted because of its size.
        """
        text, at = self._rest + piece, 0
        while self._document is None:
            begin = text.find(_MARK, at)
            if begin < 0:
                # A mark may have begun in this piece.
                self._rest = text[max(at, len(text) - len(_MARK) + 1) :]
                return True
            end = text.find(b"\n", begin + 1)
            if end < 0 and len(text) - begin <= LINE_BYTES:
                self._rest = text[begin:]
                return True
            # A longer line is none that was written: what is kept of it is garbled.
            line = text[begin + len(_MARK) : begin + LINE_BYTES if end < 0 else end]
            self._take(line[:LINE_BYTES].decode(errors="replace").rstrip("\r"))
            at = len(text) if end < 0 else end
        return False

    def finish(self) -> bytearray:
        """Return the document after the end of the log. Raises IncompleteError, TooLargeError."""
        self.feed(b"\n")
        if self._document is not None:
            return self._document
        if self._begun is None:
            raise IncompleteError("The log holds no result document.")
        raise IncompleteError(
            f"The log ends after {self._begun.taken} of the {self._begun.lines} lines of the "
            "result document."
        )

    def _take(self, words: str) -> None:
        if begin := _BEGIN.fullmatch(words):
            self._begun = _Unpacking(int(begin[1]), int(begin[2]), begin[3])
        elif words.startswith(_TOO_LARGE) and self._begun is None:
            raise TooLargeError(words.removeprefix(_TOO_LARGE))
        elif self._begun is None:
            raise IncompleteError(
                "The log holds the end of a result document, but not its start: the first lines "
                "are lost."
            )
        elif words == f"end sha256={self._begun.digest}":
            self._document = self._begun.finish()
        else:
            self._begun.take(words)


class _Unpacking:
    """The part of a document that was read from a log so far."""

    def __init__(self, lines: int, size: int, digest: str) -> None:
        self.lines, self.size, self.digest = lines, size, digest
        self.taken = 0
        self._gzip = zlib.decompressobj(wbits=_GZIP)
        self._document = bytearray()

    def take(self, words: str) -> None:
        """Take the next line. Raises IncompleteError."""
        due = self.taken + 1
        line = _LINE.fullmatch(words)
        if line is None or int(line[1]) != due or due > self.lines:
            raise IncompleteError(
                f"Line {due} of the {self.lines} lines of the result document was due in the log, "
                "but another one stands there."
            )
        try:
            chunk = b64decode(line[2], validate=True)
        except Base64Error:
            chunk = b""
        # Two spellings of the same bytes exist, of which one was written.
        if b64encode(chunk).decode("ascii") != line[2]:
            raise IncompleteError(
                f"Line {due} of the {self.lines} lines of the result document is garbled in the "
                "log."
            )
        self.taken = due
        _decompress_into(self._document, self._gzip, chunk)

    def finish(self) -> bytearray:
        """Return the whole document. Raises IncompleteError."""
        if self.taken != self.lines:
            raise IncompleteError(
                f"The log holds {self.taken} of the {self.lines} lines of the result document."
            )
        _check_end(self._gzip, "in the log")
        document = self._document
        if len(document) != self.size or sha256(document).hexdigest() != self.digest:
            raise IncompleteError(
                f"The result document in the log has {len(document)} bytes instead of "
                f"{self.size}, or another checksum: it was modified in transfer."
            )
        return document


def decode_log(lines: Iterable[str]) -> bytearray:
    """Return the document in the lines of a log. See LogDecoder."""
    decoder = LogDecoder()
    for line in lines:
        if not decoder.feed(line.encode() + b"\n"):
            break
    return decoder.finish()


def compress(document: bytes) -> bytes:
    """Return a document in gzip's format; the same document gives the same bytes."""
    gzip = zlib.compressobj(level=9, wbits=_GZIP)
    return gzip.compress(document) + gzip.flush()


def decompress(gz: bytes) -> bytearray:
    """Return what `compress` was given; raises IncompleteError."""
    gzip, document = zlib.decompressobj(wbits=_GZIP), bytearray()
    for at in range(0, len(gz), _STEP_BYTES):
        _decompress_into(document, gzip, gz[at : at + _STEP_BYTES])
    _check_end(gzip, f"of {len(gz)} compressed bytes")
    return document


def _decompress_into(document: bytearray, gzip: "zlib._Decompress", gz: bytes) -> None:
    has_more = bool(gz)
    while has_more:
        if gzip.eof:
            raise IncompleteError("The result document has something behind its end.")
        try:
            part = gzip.decompress(gz, _STEP_BYTES)
        except zlib.error as error:
            raise IncompleteError(
                f"The result document cannot be decompressed: {error}."
            ) from error
        document += part
        if len(document) > DOCUMENT_BYTES:
            raise IncompleteError(f"The result document is larger than {DOCUMENT_BYTES} bytes.")
        gz = gzip.unused_data or gzip.unconsumed_tail
        has_more = bool(gz) or (len(part) == _STEP_BYTES and not gzip.eof)


def _check_end(gzip: "zlib._Decompress", where: str) -> None:
    if not gzip.eof:
        raise IncompleteError(f"The result document {where} is cut.")


def split_parts(gz: bytes) -> list[bytes]:
    """Return compressed bytes in parts of at most 900 KiB, at least one."""
    return [gz[at : at + PART_BYTES] for at in range(0, len(gz), PART_BYTES)] or [b""]


def join_parts(all_parts: Sequence[bytes]) -> bytes:
    """Return the bytes that `split_parts` split."""
    return b"".join(all_parts)
