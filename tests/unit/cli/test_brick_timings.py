"""The times of bricks that this machine keeps."""

from pathlib import Path

import pytest

from inferometer_cli.exits import FailedError
from inferometer_cli.local.layers import TimingFile
from support.layer_graphs import brick_timings, timing


@pytest.fixture(name="kept")
def _kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TimingFile:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    return TimingFile("1.31.1", threads=1)


def test_times_are_added_to_those_that_are_known(kept: TimingFile) -> None:
    """A brick that is timed again has its new time, the others keep theirs."""
    assert kept.read() is None
    kept.add(brick_timings({"a": timing(1_000), "b": timing(2_000)}))
    kept.add(brick_timings({"b": timing(3_000)}))
    found = kept.read()
    assert found is not None
    assert {key: each.nanoseconds for key, each in found.bricks.items()} == {"a": 1_000, "b": 3_000}


def test_a_damaged_file_is_named_with_advice(kept: TimingFile) -> None:
    """It is neither taken for empty nor written over."""
    kept.add(brick_timings({"a": timing(1_000)}))
    damaged = kept.path.read_bytes()[:-20]
    kept.path.write_bytes(damaged)
    with pytest.raises(FailedError, match=r"cannot be read .* Move the file away"):
        kept.add(brick_timings({"b": timing(2_000)}))
    assert kept.path.read_bytes() == damaged
