"""The documents of a measured node, in the logs of its pods."""

from contextlib import aclosing
from typing import Generic, TypeVar

from pydantic import ValidationError

from inferometer_api.document import Document
from inferometer_api.nodes.characteristics import KIND, NodeCharacteristics
from inferometer_api.nodes.document_size import MOST_BYTES, excess
from inferometer_api.nodes.wire_rates import WIRE_KIND, WireRates
from inferometer_api.results.reading import UnreadableDocumentError, read_versioned
from inferometer_operator.cluster.reader import Reader
from inferometer_operator.reconcile.observed import Json

_MOST_LOG_BYTES = 8 * MOST_BYTES
"""The figures of 16 GPUs are reported as they are measured, and the document after them."""
_Found = TypeVar("_Found", bound=Document)


class NoDocumentError(Exception):
    """The log holds no document; the message is a sentence."""


async def read_document(reader: Reader, pod: Json) -> tuple[str, NodeCharacteristics]:
    """Return the document in a pod's log, as text too; raise NoDocumentError if there is none.

    The log holds lines about the progress and what libraries print; the document is one line. Other
    lines are dropped as they arrive.
    """
    lines = _DocumentLines(KIND, NodeCharacteristics)
    await _read_log(reader, pod, lines)
    return lines.document()


async def read_wire_rates(reader: Reader, pod: Json) -> WireRates:
    """Return the figures of the wire in a pod's log; raise NoDocumentError if there are none."""
    lines = _DocumentLines(WIRE_KIND, WireRates)
    await _read_log(reader, pod, lines)
    return lines.document()[1]


async def _read_log(reader: Reader, pod: Json, lines: "_DocumentLines[_Found]") -> None:
    """Read the log of a pod's first container."""
    metadata = pod["metadata"]
    container = pod["spec"]["containers"][0]["name"]
    async with aclosing(
        reader.stream_log(metadata["namespace"], metadata["name"], container)
    ) as log:
        async for piece in log:
            lines.feed(piece)


class _DocumentLines(Generic[_Found]):
    """The last line of a log that may be a document; no other line is held."""

    def __init__(self, kind: str, model: type[_Found]) -> None:
        self._kind, self._model = kind.encode(), model
        self._line = bytearray()
        """The line that has not ended: what can be kept of it, and one byte more."""
        self._bytes = 0
        """Size of the log."""
        self._found = b""

    def feed(self, piece: bytes) -> None:
        """Take in a part of the log; raise NoDocumentError if there is too much of it."""
        self._bytes += len(piece)
        if self._bytes > _MOST_LOG_BYTES:
            raise NoDocumentError("The log of the pod is longer than a document can be.")
        head, newline, rest = piece.partition(b"\n")
        self._take(head)
        if not newline:
            return
        self._end_line()
        whole, _, unfinished = rest.rpartition(b"\n")
        if self._kind in whole:
            for line in whole.split(b"\n"):
                self._note(line)
        self._take(unfinished)

    def document(self) -> tuple[str, _Found]:
        """Return the document; raise NoDocumentError if there is none."""
        self._end_line()
        line = self._found
        if why := excess(line):
            raise NoDocumentError(f"The document {why}.")
        try:
            read = read_versioned(self._model, line, source="The document of the pod")
            return line.decode(), read.document
        except UnreadableDocumentError as error:
            raise NoDocumentError(str(error)) from None
        except (ValidationError, UnicodeDecodeError):
            raise NoDocumentError("The log of the pod holds no whole document.") from None

    def _take(self, part: bytes) -> None:
        self._line += part[: MOST_BYTES + 1 - len(self._line)]

    def _end_line(self) -> None:
        self._note(bytes(self._line))
        self._line.clear()

    def _note(self, line: bytes) -> None:
        if line.startswith(b"{") and self._kind in line:
            self._found = line
