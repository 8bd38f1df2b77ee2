"""Files of the kernel are read whole, and missing content never becomes a figure."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer_telemetry.kernel_files import (
    AbsentError,
    UnreadableError,
    named,
    number,
    signed_number,
    text,
    whole_number,
)


def test_a_name_is_that_of_the_whole_word() -> None:
    """A line whose name only ends, or only begins, like the requested name is another one."""
    contents = "total_inactive_file 1\ninactive_file_x 2\ninactive_file 3\nMemAvailable:   4 kB\n"
    assert named(contents, "inactive_file", "x") == 3
    assert named(contents, "total_inactive_file", "x") == 1
    assert named(contents, "MemAvailable:", "x") == 4
    with pytest.raises(AbsentError, match="x has no active_file"):
        named(contents, "active_file", "x")
    with pytest.raises(UnreadableError, match="instead of a number"):
        named("usage \n", "usage", "x")


def test_a_file_that_comes_in_pieces_is_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader who gets a page at a time goes on until the end."""
    path = tmp_path / "stat"
    path.write_text("cpu 12345678\n" * 1000)
    read = os.read
    monkeypatch.setattr(os, "read", lambda descriptor, most: read(descriptor, min(most, 4096)))
    assert text(path) == path.read_text()


@given(st.integers(0, 2**64 - 1))
def test_a_number_is_read(value: int) -> None:
    """Every number that the kernel can count to is read."""
    assert whole_number(f"{value}\n", "x") == value


@given(st.text())
def test_a_value_that_is_not_a_number_is_reported(contents: str) -> None:
    """Whatever a word is, it is a number of plain digits or a reason."""
    try:
        value = whole_number(contents, "x")
    except UnreadableError:
        return
    assert contents.strip().lstrip("0") == str(value).lstrip("0")


def test_a_sensor_may_be_below_zero(tmp_path: Path) -> None:
    """A sign is read where one can be, and refused where none can."""
    path = tmp_path / "temp1_input"
    path.write_text("-4500\n")
    assert signed_number(path) == -4500
    with pytest.raises(UnreadableError):
        number(path)


def test_each_way_of_being_unreadable_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Absent, a folder, cut off, failing while it is read: a reason with the path."""
    with pytest.raises(AbsentError, match="there is no"):
        text(tmp_path / "x")
    with pytest.raises(UnreadableError, match="cannot be read: Is a directory"):
        text(tmp_path)
    (tmp_path / "cut").write_text("12")
    with pytest.raises(UnreadableError, match="is cut off"):
        text(tmp_path / "cut")

    def fail(*_: object) -> bytes:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "read", fail)
    with pytest.raises(UnreadableError, match="Input/output error"):
        text(tmp_path / "cut")
