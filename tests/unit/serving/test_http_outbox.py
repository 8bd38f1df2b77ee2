"""Replies are written in order, and without delay."""

import asyncio
from collections.abc import Callable
from typing import cast

from inferometer_serving.http.outbox import Outbox
from inferometer_serving.infer.tensors import Raw


class _Loop:
    """Remembers what is to be called soon, and has a clock to be set."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []
        self.now = 0.0

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)


class _Transport:
    """Keeps a log of what is written; `on_write` is called within a write."""

    def __init__(self, log: list[bytes]) -> None:
        self._log = log
        self.closing = False
        self.on_write: Callable[[], None] = lambda: None

    def is_closing(self) -> bool:
        return self.closing

    def write(self, data: Raw) -> None:
        self._log.append(bytes(data))
        self.on_write()

    def writelines(self, parts: list[Raw]) -> None:
        self.write(b"".join(parts))


def _outbox() -> tuple[Outbox, _Loop, Callable[[], _Transport], list[bytes]]:
    loop, log = _Loop(), list[bytes]()
    outbox = Outbox(cast(asyncio.AbstractEventLoop, loop), lambda: loop.now)
    return outbox, loop, lambda: _Transport(log), log


def _put(outbox: Outbox, transport: _Transport, *parts: Raw) -> None:
    outbox.put(cast(asyncio.Transport, transport), list(parts))


def test_answers_go_out_in_order_once_the_loop_has_turned() -> None:
    """What connections write within one turn of the loop goes out after it, in order."""
    outbox, loop, transport, log = _outbox()
    first, second = transport(), transport()
    _put(outbox, first, b"1")
    _put(outbox, second, b"2", memoryview(b"3"))
    _put(outbox, first, b"4")
    assert log == []
    assert len(loop.soon) == 1
    loop.soon[0]()
    assert log == [b"1", b"23", b"4"]


def test_an_answer_is_not_held_for_long() -> None:
    """What has waited for 0.2 ms goes out with the next answer, which may be followed by more."""
    outbox, loop, transport, log = _outbox()
    only = transport()
    for number, now in enumerate((0, 0.0001, 0.0003, 0.0004)):
        loop.now = now
        _put(outbox, only, b"%d" % number)
    assert log == [b"0", b"1", b"2"]
    for each in loop.soon:
        each()
    assert log == [b"0", b"1", b"2", b"3"]


def test_what_is_put_within_a_write_comes_last() -> None:
    """A transport that has room again, and so gets more to write, upsets no order."""
    outbox, _, transport, log = _outbox()
    eager = transport()

    def more() -> None:
        eager.on_write = lambda: None
        _put(outbox, eager, b"3")
        outbox.flush()

    eager.on_write = more
    _put(outbox, eager, b"1")
    _put(outbox, eager, b"2")
    outbox.flush()
    assert log == [b"1", b"2", b"3"]


def test_nothing_is_written_to_a_connection_that_is_gone() -> None:
    """An answer whose connection has ended meanwhile is dropped, and others are not."""
    outbox, _, transport, log = _outbox()
    gone, here = transport(), transport()
    _put(outbox, gone, b"1")
    _put(outbox, here, b"2")
    gone.closing = True
    outbox.flush()
    assert log == [b"2"]
