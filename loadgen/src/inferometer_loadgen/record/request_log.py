"""Log of requests: one row for each measured query, as CSV."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

STATUSES = ("ok", "timeout", "connection", "status", "protocol", "content")
"""What became of a query: answered, or the kind of its failure."""
_TIMES = "dueNanoseconds,sentNanoseconds,answeredNanoseconds"
HEADER = f"scenario,repeat,step,{_TIMES},status,connection,model"
UNKNOWN = -(1 << 62)
"""A time, a connection, or a model of a mix, that a query never had; an empty cell."""
_COLUMNS = 6


class RequestLog:
    """Gathers the rows of a step in memory, 48 bytes each, and writes them between steps.

    Nothing is formatted or written while a step is measured.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._rows = array("q")
        self.add = self._rows.extend
        """Take a row: due, sent, answered (from the window's begin), status, connection, model."""
        self.models: Sequence[str] = ()
        """The models of the step's mix; a row has the index of its own."""
        self.is_complete = True
        """False once rows could not be written. The measurement goes on without them."""
        self._write([HEADER + "\n"])

    def write(self, scenario: str, repeat: int, step: str) -> None:
        """Write the rows gathered since the last call, and forget them."""
        place = f"{scenario},{repeat},{step}"
        columns = [iter(self._rows)] * _COLUMNS
        self._write(
            f"{place},{due},{_cell(sent)},{_cell(answered)},{STATUSES[status]},{_cell(connection)},"
            f"{'' if model == UNKNOWN else self.models[model]}\n"
            for due, sent, answered, status, connection, model in zip(*columns, strict=True)
        )
        del self._rows[:]

    def _write(self, lines: Iterable[str]) -> None:
        if not self.is_complete:
            return
        try:
            self._file.writelines(lines)
            self._file.flush()
        except OSError:
            self.is_complete = False


@contextmanager
def open_request_log(path: str | None) -> Iterator[RequestLog | None]:
    """Open the log of a run; without a path there is none.

    It is PATH.partial until the block ends well with all rows written.
    """
    if path is None:
        yield None
        return
    partial = Path(f"{path}.partial")
    file = partial.open("w", encoding="utf-8")
    log = RequestLog(file)
    try:
        yield log
    finally:
        with suppress(OSError):  # of rows that could not be written before
            file.close()
    if log.is_complete:
        partial.rename(path)


def _cell(value: int) -> str:
    return "" if value == UNKNOWN else str(value)
