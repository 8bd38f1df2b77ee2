"""The parts of the node benchmark that need no quiet machine: what they compute and say."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime  # type: ignore[import-untyped]  # ships no types
import pytest

from inferometer_api.nodes.characteristics import NodeFigure
from inferometer_serving.node import machine, pointer_chase, storage, stream
from inferometer_serving.node.__main__ import measure
from inferometer_serving.node.matrix import matrix_units, product
from inferometer_serving.node.samples import Findings, NodeProbe, NotMeasurableError, figure


def test_the_loops_are_those_of_stream() -> None:
    """Copy c = a, scale b = 3 c, add c = a + b, triad a = b + 3 c, also past whole blocks."""
    size = 40_001
    a, b, c = (np.full(size, value) for value in (1.0, 2.0, 0.0))
    product_block = np.empty(16_384)
    for name in stream.LOOPS:
        stream.loop(name, a, b, c, product_block)
    assert set(c) == {4.0}  # 1 + 3
    assert set(b) == {3.0}  # 3 x 1
    assert set(a) == {15.0}  # 3 + 3 x 4


def test_stream_counts_the_bytes_of_its_loops() -> None:
    """Each figure is bytes over seconds of a loop over all processes, without the first repeat."""
    cpu = min(os.sched_getaffinity(0))
    found = stream.measure_stream([cpu], 1 << 20, repeats=2)
    assert [each.name for each in found] == [f"stream/{name}" for name in stream.LOOPS]
    assert all(len(each.samples) == 2 and each.value > 0 for each in found)
    assert found[0].setting == {"threads": "1", "arrayBytes": str(1 << 20)}


def test_a_chain_visits_every_line_once() -> None:
    """The pointers are one cycle through all cache lines of the working set."""
    chain = pointer_chase.pointer_chain(1 << 14)
    lines = (1 << 14) // 64
    base, at, seen = chain.ctypes.data, chain.ctypes.data, set()
    for _ in range(lines):
        seen.add(at)
        at = int(chain[(at - base) // 8])
    assert at == base
    assert len(seen) == lines


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the loop is for x86-64")
def test_the_loop_follows_the_pointers() -> None:
    """Machine code and interpreter arrive at the same place."""
    chain = pointer_chase.pointer_chain(1 << 14)
    chase = pointer_chase.compile_chase()
    base = chain.ctypes.data
    assert chase(base, 1) == int(chain[0])
    assert chase(base, (1 << 14) // 64) == base


def test_what_cannot_be_measured_has_its_reason() -> None:
    """Other primitives go on."""

    def refused() -> Sequence[NodeFigure]:
        raise NotMeasurableError("the kernel does not let it")

    findings = Findings()
    findings.add(NodeProbe("a", refused))
    findings.add(NodeProbe("b", lambda: [figure("b", "ns", [1.0, 2.0])]))
    assert findings.unavailable == {"a": "the kernel does not let it"}
    assert [each.name for each in findings.figures] == ["b"]


def test_the_best_of_a_rate_is_its_highest_and_of_a_time_its_lowest() -> None:
    """The value is the geometric mean, within its interval."""
    rate, time = figure("a", "bytes/s", [1.0, 4.0]), figure("b", "ns", [1.0, 4.0])
    assert (rate.best, time.best) == (4.0, 1.0)
    assert rate.value == pytest.approx(2.0)
    assert rate.low is not None
    assert rate.high is not None
    assert rate.low < 2.0 < rate.high


def test_a_disk_that_is_memory_is_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files whose pages stay in memory are refused, as on tmpfs; no file is left."""
    monkeypatch.setattr(storage, "_FILE_BYTES", 1 << 20)
    monkeypatch.setattr(storage, "evict", lambda _: None)
    findings = Findings()
    for probe in storage.storage_probes(tmp_path):
        findings.add(probe)
    assert "stay in memory" in findings.unavailable["storage"]
    assert list(tmp_path.iterdir()) == []


def test_units_are_offered_by_the_cpu_and_used_by_kernels(tmp_path: Path) -> None:
    """A kernel for one type of operands does not count for another."""
    info = tmp_path / "cpuinfo"
    info.write_text("flags\t\t: fpu amx_int8 amx_bf16 avx512f avx2\n")
    names = {"openvino": ["brgemm_avx512_amx_BF16", "gemm_avx512_FP32"]}
    found = {each.name: each for each in matrix_units(names, info)}
    assert {name for name, each in found.items() if each.offered} == {
        "amx_int8",
        "amx_bf16",
        "avx512f",
        "avx2",
    }
    assert found["amx_bf16"].used_by == {"openvino": ["brgemm_avx512_amx_BF16"]}
    assert found["amx_int8"].used_by == {}
    assert found["avx512f"].used_by == {"openvino": ["gemm_avx512_FP32"]}


@pytest.mark.parametrize("precision", ["FP32", "INT8"])
def test_products_are_models_that_the_engine_opens(precision: str) -> None:
    """They multiply what they say."""
    session = onnxruntime.InferenceSession(product(precision).SerializeToString())
    assert (
        session.get_inputs()[0].type
        == {"FP32": "tensor(float)", "INT8": "tensor(uint8)"}[precision]
    )


def test_a_benchmark_of_some_primitives_is_a_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has their figures, the machine and the steal, and reports each primitive before it."""
    document = measure(tmp_path, ("pageFault",), 60)
    assert [each.name for each in document.figures] == ["pageFault", "steal"]
    assert document.machine.cpu_count == len(os.sched_getaffinity(0))
    assert document.unavailable == {}
    event = json.loads(capsys.readouterr().out)
    assert event == {"event": "progress", "done": 0, "total": 1, "name": "pageFault"}


def test_what_comes_too_late_is_not_measured(tmp_path: Path) -> None:
    """Past its time the benchmark says what is left."""
    document = measure(tmp_path, ("pageFault",), 0)
    assert "were over" in document.unavailable["pageFault"]


def test_cpus_of_numa_nodes_are_those_of_this_process() -> None:
    """Lists and ranges are read, and CPUs that it may not use are left out."""
    allowed = os.sched_getaffinity(0)
    assert frozenset().union(*machine.numa_cpus().values()) <= allowed
