"""A trace is read to the nanosecond, and refused with its line if it cannot be replayed."""

from pathlib import Path

import numpy as np
import pytest

from inferometer_loadgen.input_files import InputFiles
from inferometer_loadgen.requests import trace
from inferometer_loadgen.requests.trace import TraceRefusedError


def a_trace(folder: Path, text: str | bytes) -> Path:
    """Write a trace."""
    path = folder / "arrivals.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_times_are_kept_to_the_nanosecond(tmp_path: Path) -> None:
    """Seconds are read with all their decimals, blank lines and equal times are allowed."""
    path = a_trace(tmp_path, "\ufeff0\n0.000000001\r\n\n 1.5 \n1.5\n86400.123456789\n")
    ns = [0, 1, 1_500_000_000, 1_500_000_000, 86_400_123_456_789]
    assert InputFiles().arrivals(path, 1000).tolist() == ns
    assert InputFiles().arrivals(path, 500).tolist() == [each // 2 for each in ns]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("\n\n", "is empty"),
        ("seconds\n0\n", "Line 1 of the trace .* is not a number .*without a heading"),
        ("0\n1,2\n", "Line 2 of the trace .* is not a number of seconds"),
        ("0\nnan\n", "Line 2 .* is not a number"),
        ("0\ninf\n", "Line 2 .* is not a number"),
        ("0\n1_000\n", "Line 2 .* is not a number"),
        ("0\n٣\n", "Line 2 .* is not a number"),
        ("-1\n", "Line 1 .* is below 0, but times count from the start of the window"),
        ("1e30\n", "Line 1 .* is too late: a time is below 1,000,000,000 s .* convert them"),
        ("1000000000\n", "Line 1 .* is too late: a time is below 1,000,000,000 s"),
        ("0\n2\n\n1.5\n", "Line 4 .* is before the line above it; sort the times"),
        ("1700000000\n", "Line 1 .* If the times are times of day"),
        ("700000\n", "lasts for 700000 s after its time scale, but a scenario at most 604800 s"),
        (b"\xff\xfe0\x00", "is not text"),
    ],
)
def test_what_cannot_be_replayed_is_refused(
    tmp_path: Path, text: str | bytes, message: str
) -> None:
    """The sentence names the file, the line and what to do."""
    with pytest.raises(TraceRefusedError, match=message):
        InputFiles().arrivals(a_trace(tmp_path, text), 1000)


@pytest.mark.parametrize("line", ["PASSWORD-1234", "-73519", "73519e30", "0.5\n0.2735"])
def test_no_line_of_a_file_is_quoted(tmp_path: Path, line: str) -> None:
    """An author who names a file that is no trace reads nothing of it in the status."""
    with pytest.raises(TraceRefusedError) as caught:
        InputFiles().arrivals(a_trace(tmp_path, f"1\n{line}\n"), 1000)
    quoted = str(caught.value).replace(str(tmp_path), "")
    assert not any(each in quoted for each in (*line.splitlines(), "73519", "2735"))


@pytest.mark.parametrize("last", [10_000_000, 18_446_744, 999_999_999])
def test_a_scale_that_goes_beyond_all_numbers_is_refused(tmp_path: Path, last: int) -> None:
    """The length in the sentence is the trace's own, however long it is."""
    path = a_trace(tmp_path, f"0\n{last}\n")
    with pytest.raises(TraceRefusedError, match=f"lasts for {last * 1000} s after its time scale"):
        InputFiles().arrivals(path, 1_000_000)


def test_the_longest_trace_at_the_largest_scale_is_exact(tmp_path: Path) -> None:
    """No product of a time and a scale that is kept overflows."""
    path = a_trace(tmp_path, "0.000000001\n0.604799999\n")
    assert InputFiles().arrivals(path, 1_000_000_000).tolist() == [1_000_000, 604_799_999_000_000]


def test_a_trace_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """A missing file and a folder are reported as such."""
    with pytest.raises(TraceRefusedError, match="cannot be read: No such file"):
        InputFiles().arrivals(tmp_path / "none.csv", 1000)
    with pytest.raises(TraceRefusedError, match="cannot be read: Is a directory"):
        InputFiles().arrivals(tmp_path, 1000)


def test_a_trace_beyond_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many arrivals are refused at the first one too many, and too large a file unread."""
    monkeypatch.setattr(trace, "MOST_ARRIVALS", 3)
    assert len(InputFiles().arrivals(a_trace(tmp_path, "1\n2\n3\n"), 1000)) == 3
    with pytest.raises(TraceRefusedError, match="more than 3 arrivals"):
        InputFiles().arrivals(a_trace(tmp_path, "1\n2\n3\n4\nx\n"), 1000)
    monkeypatch.setattr(trace, "_MOST_BYTES", 10)
    with pytest.raises(TraceRefusedError, match="cut it into several"):
        InputFiles().arrivals(a_trace(tmp_path, "1" * 11), 1000)


def test_a_file_is_read_once(tmp_path: Path) -> None:
    """Steps that replay the same file share its times, each with a time scale of its own."""
    path, files = a_trace(tmp_path, "1\n2\n"), InputFiles()
    assert files.arrivals(path, 1000).tolist() == [1_000_000_000, 2_000_000_000]
    path.unlink()
    assert files.arrivals(path, 500).tolist() == [500_000_000, 1_000_000_000]


def test_arrays_are_read_once(tmp_path: Path) -> None:
    """Every model of a mix, the sampled outputs and every repeat have the same arrays."""
    path, files = tmp_path / "in.npz", InputFiles()
    np.savez(path, x=np.arange(3))
    assert files.arrays(path)["x"].tolist() == [0, 1, 2]
    path.unlink()
    assert files.arrays(path)["x"].tolist() == [0, 1, 2]
