"""Pages of files in memory are counted, evicted and read."""

from pathlib import Path

from inferometer_models.page_cache import evict, read_whole, resident_bytes

SIZE = (8 << 20) + 5


def test_evicted_pages_are_gone_and_read_pages_are_there(tmp_path: Path) -> None:
    """Also of a file that was just written, and whose last page is not full."""
    file = tmp_path / "model.onnx"
    file.write_bytes(b"x" * SIZE)
    assert resident_bytes(file) == SIZE
    evict([file])
    assert resident_bytes(file) <= SIZE // 100
    read_whole([file])
    assert resident_bytes(file) == SIZE


def test_an_empty_file_has_no_pages(tmp_path: Path) -> None:
    """It cannot be mapped, and needs not be."""
    file = tmp_path / "empty"
    file.touch()
    evict([file])
    assert resident_bytes(file) == 0
