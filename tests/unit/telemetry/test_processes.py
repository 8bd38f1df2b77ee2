"""A process counts with all its children, and never with a later process of its number."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer_telemetry.kernel_files import UnreadableError
from inferometer_telemetry.processes import process_tree, stat
from support.recorded_node import RecordedNode


def test_a_process_counts_with_all_its_descendants(tmp_path: Path) -> None:
    """CPU time and memory are of the whole tree; a neighbour's are not in it."""
    node = RecordedNode(tmp_path)
    node.add_process(10)
    node.add_process(11, parent=10)
    node.add_process(12, parent=11)
    node.add_process(99)
    node.advance(processes={10: 1.5, 11: 2.25, 12: 0.25, 99: 50})
    tree = process_tree(node.proc_root, 10)
    assert tree.process_ids == {10, 11, 12}
    assert tree.usage.cpu_microseconds == 4_000_000
    assert tree.usage.memory_bytes == 3 * 2**20
    assert tree.usage.problems == []


def test_a_kernel_without_child_lists_is_reported(tmp_path: Path) -> None:
    """Without CONFIG_PROC_CHILDREN the process counts alone, and that is said."""
    node = RecordedNode(tmp_path)
    node.add_process(10)
    (node.proc_root / "10/task/10/children").unlink()
    (problem,) = process_tree(node.proc_root, 10).usage.problems
    assert "does not list children" in problem


def test_a_child_that_ends_meanwhile_is_no_fault(tmp_path: Path) -> None:
    """A child in the list whose folder is gone already counts with its parent only."""
    node = RecordedNode(tmp_path)
    node.add_process(10)
    (node.proc_root / "10/task/10/children").write_text("11 12 ")
    assert process_tree(node.proc_root, 10).usage.cpu_microseconds == 0


def test_a_missing_process_is_reported(tmp_path: Path) -> None:
    """There is no figure of a process that does not exist."""
    with pytest.raises(UnreadableError, match="there is no"):
        process_tree(RecordedNode(tmp_path).proc_root, 12345)


@given(
    name=st.text(max_size=20).filter(lambda name: "\x00" not in name),
    times=st.lists(st.integers(0, 10**9), min_size=4, max_size=4),
)
def test_a_name_may_hold_anything(
    tmp_path_factory: pytest.TempPathFactory, name: str, times: list[int]
) -> None:
    """Brackets, spaces and line ends in a process's name do not shift its figures."""
    folder = tmp_path_factory.mktemp("proc") / "7"
    folder.mkdir()
    words = " ".join(map(str, times))
    text = f"7 ({name}) R 3 1 1 0 -1 4 9 0 0 0 {words} 20 0 1 0 4242 1 5\n"
    (folder / "stat").write_bytes(text.encode("utf-8", "surrogatepass"))
    found = stat(folder.parent, 7)
    assert (found.parent, found.cpu_ticks, found.start_ticks) == (3, sum(times), 4242)


@given(content=st.binary(max_size=200))
def test_garbage_is_unreadable(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    """Whatever the file says, it is a process or a reason."""
    folder = tmp_path_factory.mktemp("proc") / "7"
    folder.mkdir()
    (folder / "stat").write_bytes(content)
    with pytest.raises(UnreadableError):
        stat(folder.parent, 7)
