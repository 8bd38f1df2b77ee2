"""Transport of a result document: as lines in the log of a pod, and in parts for ConfigMaps.

The load generator writes three gzip members to the log of its pod, as lines of text between two
marks: a report with the summaries of the scenarios, the head of the document, and its body, which
holds the scenarios. The operator parses the first two, which are small. It stores the document in
ConfigMaps without decompressing its body to memory.
"""

import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256

from inferometer_api.results.gzip_members import (
    DOCUMENT_BYTES,
    GzipMembers,
    IncompleteError,
    compress,
)
from inferometer_api.results.result import ResultDocument

LOG_BYTES = 8 * 1024 * 1024
"""Maximum size of an encoded document in the log: kubelets keep 10 MiB by default."""
LINE_BYTES = 8 * 1024
"""Longest line of an encoded document: container runtimes split lines of 16 KiB."""
PART_BYTES = 900 * 1024
"""Maximum part of a document in one ConfigMap: Kubernetes limits it to 1 MiB."""
REPORT_BYTES = 256 * 1024
"""Largest report next to a document: the scenarios of a status have the same limit."""
HEAD_BYTES = 512 * 1024
"""Largest head of a document: its run, environment and outcome."""

_MOST_OBJECTS, _MOST_VALUES = 80_000, 600_000
"""Of JSON in a document. The largest documents of windows and samples have half as many; a document
of small objects would take a hundred times its size in memory."""
_MOST_PARSED_OBJECTS, _MOST_PARSED_VALUES = 5_000, 20_000
"""The same of report and head together, which the operator parses."""

_PREFIX = "inferometer-result "
_TOO_LARGE = "too-large "
_CHUNK_BYTES = 6000  # a multiple of 3: base64 without padding, 8,000 characters
_BEGIN = re.compile(r"begin lines=([0-9]{1,6}) bytes=([0-9]{1,9}) sha256=([0-9a-f]{64})")
_LINE = re.compile(r"([1-9][0-9]{0,5}) ([A-Za-z0-9+/=]+)")
_MARK = b"\n" + _PREFIX.encode()
_REPORT, _HEAD, _BODY = range(3)
"""The members in the log, in their order."""


class TooLargeError(ValueError):
    """A document is too large to be handed over; the message is a sentence."""


@dataclass(frozen=True, slots=True)
class LoggedResult:
    """A result as it arrives in a log."""

    report: bytes
    """A LoadReport with the summaries of the scenarios."""
    head: bytes
    """The document without its scenarios, which is a document itself."""
    body_gz: bytearray = field(repr=False)
    """The rest of the document, compressed. See `split_document`."""


def split_document(document: ResultDocument) -> tuple[bytes, bytes]:
    """Return the head and the body of a document as JSON; `join_document` is the reverse."""
    members = {"scenarios", "repeat_summaries"}
    head = document.model_dump_json(exclude_none=True, exclude=members)
    body = document.model_dump_json(exclude_none=True, include=members)
    return head.encode(), body[1:].encode()


def join_document(head: bytes, body: bytes | bytearray) -> bytes:
    """Return the document of which these are head and body."""
    return open_head(head) + body


def open_head(head: bytes) -> bytes:
    """Return a head as it stands before the body."""
    return head.removesuffix(b"}") + b","


def encode_for_log(
    report: bytes, head: bytes, body: bytes, *, limit_bytes: int = LOG_BYTES
) -> list[str]:
    """Return a result as lines of at most 8 KiB, without line ends, for `decode_log`.

    Raises TooLargeError if they would take more than `limit_bytes`, line ends included, or if the
    document would take too much memory in its readers.
    """
    check_parsed(report, head)
    check_document(body)
    members = (report, head, body)
    text = b64encode(b"".join(map(compress, members))).decode("ascii")
    step = _CHUNK_BYTES // 3 * 4
    chunks = [text[at : at + step] for at in range(0, len(text), step)]
    digest, count = sha256(b"".join(members)).hexdigest(), sum(map(len, members))
    lines = [
        f"{_PREFIX}begin lines={len(chunks)} bytes={count} sha256={digest}",
        *(f"{_PREFIX}{number} {chunk}" for number, chunk in enumerate(chunks, start=1)),
        f"{_PREFIX}end sha256={digest}",
    ]
    size, document_bytes = sum(len(line) + 1 for line in lines), len(head) + len(body)
    if size > limit_bytes or document_bytes > DOCUMENT_BYTES:
        raise TooLargeError(
            f"The result document of {document_bytes} bytes takes {size} bytes when it is packed, "
            f"and at most {limit_bytes} packed, {DOCUMENT_BYTES} unpacked, can be handed over."
        )
    return lines


def check_document(document: bytes) -> None:
    """Raise TooLargeError if a JSON document would take too much memory in its readers."""
    _check_values(document, "result document", _MOST_OBJECTS, _MOST_VALUES)


def check_parsed(report: bytes, head: bytes) -> None:
    """Raise TooLargeError if report and head would take too much memory in the operator."""
    for name, text, limit_bytes in (
        ("report", report, REPORT_BYTES),
        ("head of the result document", head, HEAD_BYTES),
    ):
        if len(text) > limit_bytes:
            raise TooLargeError(
                f"The {name} has {len(text)} bytes, and at most {limit_bytes} can be handed over."
            )
    _check_values(
        report + head, "head of the result document", _MOST_PARSED_OBJECTS, _MOST_PARSED_VALUES
    )


def _check_values(text: bytes, name: str, most_objects: int, most_values: int) -> None:
    objects = text.count(b"{") - text.count(b"{}")
    values = text.count(b",")
    if objects > most_objects or values > most_values:
        raise TooLargeError(
            f"The {name} has {objects} objects and {values} values, and at most {most_objects} and "
            f"{most_values} can be handed over."
        )


def omission_lines(sentence: str) -> list[str]:
    """Return the lines that replace a document which is too large, and say why."""
    return [f"{_PREFIX}{_TOO_LARGE}{' '.join(sentence.split())}"]


class LogDecoder:
    """Decodes the result of `encode_for_log` while its log arrives, in pieces of any size.

    The log may have other lines in between. They are dropped at once: of any log, this holds the
    result with its body compressed, one of its lines, and little else.
    """

    def __init__(self) -> None:
        self._rest = b"\n"
        self._begun: _Unpacking | None = None
        self._found: LoggedResult | None = None

    def feed(self, piece: bytes) -> bool:
        """Take the next piece of the log; return whether more of it is needed.

        Raises IncompleteError if a line of the document is missing or modified, TooLargeError if
        the document was omitted because of its size.
        """
        text, at = self._rest + piece, 0
        while self._found is None:
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

    def finish(self) -> LoggedResult:
        """Return the result after the end of the log. Raises IncompleteError, TooLargeError."""
        self.feed(b"\n")
        if self._found is not None:
            return self._found
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
            self._found = self._begun.finish()
        else:
            self._begun.take(words)


class _Unpacking:
    """The part of a result that was read from a log so far."""

    def __init__(self, lines: int, size: int, digest: str) -> None:
        self.lines, self.size, self.digest = lines, size, digest
        self.taken = 0
        self._members = GzipMembers()
        self._parsed = (bytearray(), bytearray())
        self._body_gz = bytearray()
        self._bytes, self._sha256 = 0, sha256()

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
        for member, gz, part in self._members.feed(chunk):
            self._add(member, gz, part)

    def _add(self, member: int, gz: bytes, part: bytes) -> None:
        self._sha256.update(part)
        self._bytes += len(part)
        if member > _BODY:
            raise IncompleteError("The result document has something behind its end.")
        if self._bytes - len(self._parsed[_REPORT]) > DOCUMENT_BYTES:
            raise IncompleteError(f"The result document is larger than {DOCUMENT_BYTES} bytes.")
        if member == _BODY:
            self._body_gz += gz
            # Empty blocks take space, and stand for nothing.
            if len(self._body_gz) > LOG_BYTES:
                raise IncompleteError("The result document in the log has empty blocks.")
            return
        self._parsed[member].extend(part)
        if len(self._parsed[member]) > HEAD_BYTES:
            raise IncompleteError(
                f"The head of the result document is larger than {HEAD_BYTES} bytes."
            )

    def finish(self) -> LoggedResult:
        """Return the whole result. Raises IncompleteError, TooLargeError."""
        if self.taken != self.lines:
            raise IncompleteError(
                f"The log holds {self.taken} of the {self.lines} lines of the result document."
            )
        if not self._members.has_ended:
            raise IncompleteError("The result document in the log is cut.")
        if self._members.index != _BODY:
            raise IncompleteError(
                f"The result in the log has {self._members.index + 1} parts instead of 3: a load "
                "generator of another version wrote it."
            )
        if self._bytes != self.size or self._sha256.hexdigest() != self.digest:
            raise IncompleteError(
                f"The result document in the log has {self._bytes} bytes instead of "
                f"{self.size}, or another checksum: it was modified in transfer."
            )
        report, head = map(bytes, self._parsed)
        check_parsed(report, head)
        return LoggedResult(report, head, self._body_gz)


def decode_log(lines: Iterable[str]) -> LoggedResult:
    """Return the result in the lines of a log. See LogDecoder."""
    decoder = LogDecoder()
    for line in lines:
        if not decoder.feed(line.encode() + b"\n"):
            break
    return decoder.finish()
