"""Allocations of the node benchmark, and the loops of calls in machine code."""

import ctypes
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from inferometer_serving.node import allocations, machine_code
from inferometer_serving.node.__main__ import measure
from inferometer_serving.node.allocations import ALLOCATION_FIGURES, compile_allocation
from inferometer_serving.node.samples import NotMeasurableError

_needs_machine_code = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="the loops are for x86-64"
)
_WORD = ctypes.c_size_t


@_needs_machine_code
def test_the_loop_of_calls_calls_as_often_as_it_should() -> None:
    """It passes the four arguments each time, and returns all errors together."""
    seen: list[tuple[int, ...]] = []

    @ctypes.CFUNCTYPE(ctypes.c_int, _WORD, _WORD, _WORD, _WORD)  # type: ignore[untyped-decorator]
    def called(*words: int) -> int:
        seen.append(words)
        return {3: 4, 5: 1}.get(len(seen), 0)

    repeat = machine_code.repeated_calls()
    assert repeat is not None
    errors = repeat(ctypes.cast(called, ctypes.c_void_p).value, 11, 12, 13, 14, 6)
    assert seen == [(11, 12, 13, 14)] * 6
    assert errors == 5


def test_a_processor_without_the_loop_calls_by_ctypes(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no machine code for it."""
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert machine_code.repeated_calls() is None


@contextmanager
def _recorded_calls(
    address: int,
) -> Iterator[tuple[list[tuple[object, ...]], tuple[int, int, int]]]:
    """Yield what is called, and a malloc that returns this address, a memset and a free."""
    seen: list[tuple[object, ...]] = []

    @ctypes.CFUNCTYPE(_WORD, _WORD)  # type: ignore[untyped-decorator]
    def malloc(size: int) -> int:
        seen.append(("malloc", size))
        return address

    @ctypes.CFUNCTYPE(_WORD, _WORD, ctypes.c_int, _WORD)  # type: ignore[untyped-decorator]
    def memset(*words: int) -> int:
        seen.append(("memset", *words))
        return words[0]

    @ctypes.CFUNCTYPE(None, _WORD)  # type: ignore[untyped-decorator]
    def free(memory: int) -> None:
        seen.append(("free", memory))

    found = (ctypes.cast(each, ctypes.c_void_p).value or 0 for each in (malloc, memset, free))
    first, second, third = found
    yield seen, (first, second, third)


@_needs_machine_code
def test_memory_is_allocated_written_and_freed_as_often_as_it_should() -> None:
    """Without bytes to write there is no call of memset."""
    with _recorded_calls(1 << 40) as (seen, calls):
        allocate = compile_allocation(calls)
        allocate(100, 0, 2)
        assert seen == [("malloc", 100), ("free", 1 << 40)] * 2
        seen.clear()
        allocate(1 << 33, 70, 3)
        written = ("memset", 1 << 40, 0, 70)
        assert seen == [("malloc", 1 << 33), written, ("free", 1 << 40)] * 3


@_needs_machine_code
def test_without_memory_nothing_is_written() -> None:
    """The reason names the size."""
    with _recorded_calls(0) as (seen, calls):
        with pytest.raises(MemoryError, match="no memory of 4096 bytes"):
            compile_allocation(calls)(4096, 4096, 1)
        assert seen == [("malloc", 4096)]


@_needs_machine_code
def test_allocations_have_figures_by_numa_node_and_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writing the memory costs more than allocating it."""
    monkeypatch.setattr(allocations, "_LOG2_SIZES", (12, 20))
    document = measure(tmp_path, ("libc",), 60)
    found = {(each.name, each.setting["bytes"]): each for each in document.figures[:-1]}
    assert found.keys() == {
        (name, str(1 << each)) for name in ALLOCATION_FIGURES for each in (12, 20)
    }
    alone, written = (found[name, str(1 << 20)] for name in ALLOCATION_FIGURES)
    assert alone.unit == written.unit == "ns"
    assert written.best > alone.best


def test_a_processor_without_the_loop_has_no_allocations(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are unavailable with the reason."""
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(NotMeasurableError, match="no loop of allocations"):
        compile_allocation((0, 0, 0))
