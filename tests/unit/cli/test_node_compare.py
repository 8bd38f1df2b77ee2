"""`inferometer node --compare`: figures of Comm|Scope next to those of this machine."""

import json
from pathlib import Path
from typing import Any

import pytest

from inferometer_cli.commands.node import node
from inferometer_cli.local import node_benchmark
from support.node_documents import a_figure, a_node_document, recorded_gpu_node

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
    """A file of a GPU's figures alone does not pass in silence on a machine without."""
    name = "Comm_cudaMemcpyAsync_PinnedToGPU/0/0/log2(N):20/manual_time"
    found = _printed(name, tmp_path, monkeypatch, capsys)
    assert "The file has no figure for the same transfer" in found
    assert "same name, NUMA node, GPU and size" in found


def test_a_gpu_is_compared_with_a_published_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table names GPUs and tensor cores; each transfer is next to its counterpart."""
    document = recorded_gpu_node()
    monkeypatch.setattr(node_benchmark, "measure_node", lambda *_: document)
    file = tmp_path / "scope.json"
    entries = [
        {
            "name": "Comm_cudaMemcpyAsync_PinnedToGPU/0/0/log2(N):28/manual_time",
            "bytes_per_second": 7.2e10,
        },
        {"name": "Comm_UM_Latency_HostToGPU/0/0/log2(N):16/manual_time", "real_time": 4.8e5},
    ]
    file.write_text(json.dumps({"benchmarks": entries}))
    node(compare=file, save=False)
    found = " ".join(capsys.readouterr().out.split())
    assert "GPU 0: NVIDIA H200, compute capability 9.0, 132 multiprocessors" in found
    assert "GPU 0 offers tensor_tf32, tensor_bf16" in found
    assert "cublas uses tensor_fp8: nvjet_sm90" in found
    assert "Not measured: gpu peers: there is one GPU." in found
    assert "55.4 GB/s here, 72.0 GB/s in the file (0.77 times)." in found
    assert "25.5 µs here, 30.0 µs in the file (0.85 times)." in found
