"""The node benchmark's reads of a file, from the disk and from the page cache."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from inferometer_serving.node import storage


def test_each_read_of_the_disk_is_of_a_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The samples are the rates of the reads; no file is read twice from the disk, and none stays.

    The host of a virtual machine may keep in its memory what was read once.
    """
    cold: list[Path] = []
    cached: list[Path] = []

    def read(paths: list[Path]) -> Callable[[Path], float]:
        def rate(path: Path) -> float:
            assert path.stat().st_size == 1 << 20
            paths.append(path)
            return float(len(paths))

        return rate

    monkeypatch.setattr(storage, "_FILE_BYTES", 1 << 20)
    monkeypatch.setattr(storage, "cold_rate", read(cold))
    monkeypatch.setattr(storage, "cached_rate", read(cached))
    (probe,) = storage.storage_probes(tmp_path)
    disk, memory = probe.measure()
    assert (disk.name, disk.samples) == ("disk/read", [1.0, 2.0, 3.0])
    assert (memory.name, memory.samples) == ("pageCache/read", [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    assert len(set(cold)) == len(cold)
    assert set(cached) == set(cold)
    assert list(tmp_path.iterdir()) == []


def test_a_rate_is_bytes_over_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole file is read, also one that is no multiple of a chunk."""
    file = tmp_path / "file"
    file.write_bytes(os.urandom((1 << 20) + 1))
    read: list[int] = []

    def two_seconds(work: Callable[[], object]) -> float:
        before = _bytes_read()
        work()
        read.append(_bytes_read() - before)
        return 2.0

    monkeypatch.setattr(storage, "seconds_of", two_seconds)
    assert storage.cached_rate(file) == ((1 << 20) + 1) / 2
    assert read[0] >= (1 << 20) + 1


def _bytes_read() -> int:
    """Return how much this process has read, by the kernel's count."""
    line = Path("/proc/self/io").read_text().partition("\n")[0]
    return int(line.removeprefix("rchar: "))
