"""`inferometer node --compare`: figures of Comm|Scope next to those of this machine."""

import json
from pathlib import Path
from typing import Any

import pytest

from inferometer_cli.commands.node import node
from inferometer_cli.local import node_benchmark
from support.node_documents import a_figure, a_node_document

_MIB = 1 << 20


def _printed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> str:
    """Return what is printed of a file with one benchmark of this name."""
    copy = a_figure("memcpy", "bytes/s", 1e10, source=0, destination=0, bytes=_MIB)

    def measure(*_: Any) -> Any:
        return a_node_document(figures=[copy])

    monkeypatch.setattr(node_benchmark, "measure_node", measure)
    file = tmp_path / "scope.json"
    file.write_text(json.dumps({"benchmarks": [{"name": name, "bytes_per_second": 2e10}]}))
    node(compare=file, save=False)
    return " ".join(capsys.readouterr().out.split())


def test_the_same_copy_is_shown_next_to_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With both rates and their quotient."""
    found = _printed("libc_memcpy_NUMAToNUMA/0/0/log2(N):20", tmp_path, monkeypatch, capsys)
    assert "10.0 GB/s here, 20.0 GB/s in the file (0.50 times)." in found
    assert "The file has no figure" not in found


def test_a_file_without_the_same_copy_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file of a GPU's figures alone does not pass in silence."""
    name = "Comm_cudaMemcpyAsync_PinnedToGPU/0/0/log2(N):20/manual_time"
    found = _printed(name, tmp_path, monkeypatch, capsys)
    assert "The file has no figure for the same copy" in found
    assert "libc_memcpy_NUMAToNUMA" in found
