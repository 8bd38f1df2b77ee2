"""The node benchmark's STREAM: its loops, the bytes that they count, and NUMA nodes."""

import mmap
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inferometer_api.nodes.characteristics import NodeFigure
from inferometer_serving.node import (
    machine,
    stream,
    stream_loops,
)
from inferometer_serving.node.stream_loops import Code, Doubles

_CODES = [
    "NumPy",
    pytest.param(
        "AVX2",
        marks=pytest.mark.skipif(
            stream_loops.fastest_code() != "AVX2",
            reason="this CPU has no AVX2, or its kernel refuses machine code",
        ),
    ),
]
_EXPECTED: Mapping[str, Callable[[Doubles, Doubles], Doubles]] = {
    "copy": lambda first, _: first,
    "scale": lambda first, _: 3.0 * first,
    "add": lambda first, second: first + second,
    "triad": lambda first, second: first + 3.0 * second,
}


@pytest.mark.parametrize("size", [0, 1, 31, 32, 33, 64, 1_023, 300_001])
@pytest.mark.parametrize("name", stream.LOOPS)
@pytest.mark.parametrize("code", _CODES)
def test_the_loops_are_those_of_stream(code: Code, name: str, size: int) -> None:
    """Machine code and NumPy compute every element, to the last bit, and nothing past the end.

    The arrays begin at any float, and their lengths are no multiples of a vector or a block.
    """
    rng = np.random.default_rng(size)
    first, second, target = (rng.standard_normal(size + 2) for _ in range(3))
    before = [each.copy() for each in (first, second, target)]
    inner = slice(1, size + 1)
    stream_loops.loops(code)[name](target[inner], first[inner], second[inner])
    expected = before[2]
    expected[inner] = _EXPECTED[name](before[0][inner], before[1][inner])
    for found, right in zip((first, second, target), (*before[:2], expected), strict=True):
        np.testing.assert_array_equal(found, right)


@pytest.mark.parametrize(
    ("machine", "flags"), [("aarch64", "fp asimd"), ("x86_64", "sse2 avx"), ("riscv64", "avx2")]
)
def test_a_processor_without_machine_code_has_numpy(
    machine: str, flags: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loops are NumPy's on another architecture, and on x86-64 without AVX2."""
    info = tmp_path / "cpuinfo"
    info.write_text(f"flags\t\t: {flags}\n")
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert stream_loops.fastest_code(info) == "NumPy"


def test_a_kernel_that_refuses_machine_code_has_numpy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where memory cannot be written and executed, STREAM runs all the same, and says how."""

    def refused(*_: object, **__: object) -> mmap.mmap:
        raise PermissionError(13, "Permission denied")

    info = tmp_path / "cpuinfo"
    info.write_text("flags\t\t: sse2 avx2\n")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(mmap, "mmap", refused)
    assert stream_loops.fastest_code(info) == "NumPy"
    found = stream.measure_stream([min(os.sched_getaffinity(0))], 1 << 20, repeats=1)
    assert {each.setting["loops"] for each in found} == {"NumPy"}


def test_stream_counts_the_bytes_of_its_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each figure is bytes over seconds of a loop over all processes, without the first repeat.

    Bytes are those that the loop reads and writes: those of two or three arrays.
    """
    cpu = min(os.sched_getaffinity(0))
    taken: dict[str, list[float]] = {}
    run = stream._run

    def recorded(workers: Any, name: str) -> float:
        taken.setdefault(name, []).append(run(workers, name))
        return taken[name][-1]

    monkeypatch.setattr(stream, "_run", recorded)
    found = stream.measure_stream([cpu], 1 << 20, repeats=2)
    assert [each.name for each in found] == [f"stream/{name}" for name in stream.LOOPS]
    for each, arrays in zip(found, (2, 2, 3, 3), strict=True):
        _, *counted = taken[each.name.removeprefix("stream/")]
        assert each.samples == pytest.approx([arrays * (1 << 20) / time for time in counted])
    assert found[0].setting == {
        "threads": "1",
        "arrayBytes": str(1 << 20),
        "loops": stream_loops.fastest_code(),
    }


def test_stream_measures_each_of_several_numa_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has a probe of its own, on its own CPUs, and its figures name it."""
    cpus = {0: "0,2", 1: "1,3"}
    for node, text in cpus.items():
        (tmp_path / f"node{node}").mkdir()
        (tmp_path / f"node{node}" / "cpulist").write_text(f"{text}\n")
    monkeypatch.setattr(machine, "_NODES", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    measured: list[tuple[Sequence[int], int | None]] = []

    def record(cpus: Sequence[int], _size: int, *, node: int | None) -> list[NodeFigure]:
        measured.append((cpus, node))
        return []

    monkeypatch.setattr(stream, "array_bytes", lambda _: 1 << 20)
    monkeypatch.setattr(stream, "measure_stream", record)
    probes = {each.name: each for each in stream.stream_probes()}
    assert list(probes) == [
        *("stream (1 threads)", "stream (2 threads)", "stream (4 threads)"),
        *("stream (node 0)", "stream (node 1)"),
    ]
    for each in probes.values():
        each.measure()
    assert measured[2:] == [([0, 1, 2, 3], None), ([0, 2], 0), ([1, 3], 1)]


def test_figures_of_a_numa_node_name_it() -> None:
    """They differ in their setting from those of as many threads anywhere."""
    cpu = min(os.sched_getaffinity(0))
    found = stream.measure_stream([cpu], 1 << 20, repeats=1, node=1)
    assert {each.setting["node"] for each in found} == {"1"}
