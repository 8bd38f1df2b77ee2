"""Reader of chunked bodies (RFC 9112, section 7.1)."""

from enum import Enum

from inferometer_loadgen.wire.http1.head import ReplyError

_LINE_LIMIT_BYTES = 16_384
_HEX = frozenset(b"0123456789abcdefABCDEF")


class _Expects(Enum):
    SIZE = "a chunk's size"
    DATA = "a chunk's data"
    DATA_END = "the line end behind a chunk"
    TRAILER = "a trailer"


class ChunkReader:
    """Reader of a chunked body that comes in any pieces; it scans each byte once.

    ``done`` is true once the last chunk and the trailers have been read.
    """

    __slots__ = ("_expects", "_left", "_line", "done")

    def __init__(self) -> None:
        self.done = False
        self._expects = _Expects.SIZE
        self._left = 0
        self._line = b""

    def feed(self, data: bytes, position: int) -> tuple[list[tuple[int, int]], int]:
        """Return the spans of ``data`` that belong to the body, and the position behind them.

        Raises ReplyError if the chunks are malformed.
        """
        spans: list[tuple[int, int]] = []
        while position < len(data) and not self.done:
            if self._expects is _Expects.DATA:
                end = min(position + self._left, len(data))
                spans.append((position, end))
                self._left -= end - position
                position = end
                if not self._left:
                    self._expects = _Expects.DATA_END
                continue
            line_end = data.find(b"\n", position) + 1
            self._line += data[position : line_end or len(data)]
            position = line_end or len(data)
            if len(self._line) > _LINE_LIMIT_BYTES:
                raise ReplyError(f"{self._expects.value.capitalize()} in the reply never ends.")
            if line_end:
                line, self._line = self._line, b""
                self._read_line(line)
        return spans, position

    def _read_line(self, line: bytes) -> None:
        if not line.endswith(b"\r\n"):
            raise ReplyError(f"The reply has {line[:80]!r} instead of {self._expects.value}.")
        text = line[:-2]
        match self._expects:
            case _Expects.SIZE:
                self._left = _chunk_size(text)
                self._expects = _Expects.DATA if self._left else _Expects.TRAILER
            case _Expects.DATA_END:
                if text:
                    raise ReplyError(f"A chunk of the reply is followed by {text[:80]!r}.")
                self._expects = _Expects.SIZE
            case _:
                self.done = not text


def _chunk_size(line: bytes) -> int:
    digits = line.partition(b";")[0].strip(b" \t")
    if not 0 < len(digits) <= 15 or not _HEX.issuperset(digits):
        raise ReplyError(f"The reply has {line[:80]!r} instead of a chunk's size.")
    return int(digits, 16)
