"""How do Locust's processes read lines and write them, without holding up other greenlets?

Only Locust's own processes import this: importing Locust patches the standard library for gevent.
"""

import sys
from collections.abc import Callable, Iterator

import gevent  # type: ignore[import-untyped]  # has no types
from gevent.fileobject import FileObjectPosix  # type: ignore[import-untyped]  # has no types
from gevent.queue import Queue  # type: ignore[import-untyped]  # has no types


def read_lines(descriptor: int) -> Iterator[bytes]:
    """Yield each line until there are no more."""
    with FileObjectPosix(descriptor, "rb") as file:
        yield from iter(file.readline, b"")


class Writer:
    """Writes lines in turn; whoever gives one does not wait. `gone` is called once nobody reads."""

    def __init__(self, descriptor: int, gone: Callable[[], None]) -> None:
        self._file = FileObjectPosix(descriptor, "wb", 0)
        self._lines: Queue[bytes] = Queue()
        self._gone = gone
        gevent.spawn(self._write)

    def write(self, line: bytes) -> None:
        """Write a line that bears its end."""
        self._lines.put(line)

    def _write(self) -> None:
        try:
            for line in self._lines:
                self._file.write(line)
        except OSError as error:
            sys.stderr.write(f"Nobody reads any more: {error}.\n")
            self._gone()
