"""A node with a GPU in the explorer and in Comm|Scope's format, by a recorded measurement."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from inferometer_api.nodes.characteristics import NodeCharacteristics, NodeFigure
from inferometer_api.nodes.headlines import headlines, machine_kind, shown_headlines
from inferometer_results.nodes.comm_scope import counterparts, read_comm_scope, to_comm_scope
from inferometer_results.nodes.comm_scope_names import OF_FIGURES
from inferometer_results.nodes.view import figure_rows, histories, listed_nodes
from inferometer_results.nodes.wording import figure_cells, gpu_sentences, unit_sentences
from inferometer_results.quantity import DASH
from inferometer_results.service.access.rules import AccessRules
from inferometer_results.service.app import create_app
from inferometer_results.store.node_characteristics import keep_characteristics
from inferometer_results.store.store import Store
from support.node_documents import a_figure, a_node_document, recorded_gpu_node


@pytest.fixture
def document() -> NodeCharacteristics:
    """Return the recorded measurement."""
    return recorded_gpu_node()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Return an empty store."""
    with Store(str(tmp_path / "results.db")) as found:
        yield found


def test_every_transfer_and_call_is_written_as_comm_scope_has_it(
    document: NodeCharacteristics,
) -> None:
    """Names, sizes and counters; each sample is an entry, and figures of our own stay out."""
    written = to_comm_scope(document)["benchmarks"]
    by_name = {each["name"]: each for each in written}
    copy = by_name["Comm_cudaMemcpyAsync_PinnedToGPU/0/0/log2(N):28/manual_time"]
    assert {"bytes", "bytes_per_second", "cuda_id", "numa_id"} <= copy.keys()
    assert (copy["bytes"], copy["cuda_id"], copy["numa_id"]) == (1 << 28, 0, 0)
    assert copy["bytes_per_second"] * copy["real_time"] / 1e9 == pytest.approx(1 << 28)
    assert "Comm_cudaMemcpyAsync_PinnedToGPU_flush/0/0/log2(N):24/manual_time" in by_name
    assert "Comm_cudaMemcpyAsync_GPUToGPU/0/0/0/log2(N):30/manual_time" in by_name
    assert "Comm_UM_Demand_GPUToHost/0/0/log2(N):12" in by_name
    assert "Comm_UM_Demand_GPUToHostMt/0/0/16/log2(N):12/manual_time" in by_name
    latency = by_name["Comm_UM_Latency_HostToGPU/0/0/log2(N):64/manual_time"]
    assert latency["strides"] == 64
    assert "bytes_per_second" not in latency
    assert "Comm_cudart_kernel/0/0/0/real_time/threads:1" in by_name
    assert "Comm_cudart_cudaGraphLaunch_kernel/0/0/16" in by_name
    exported = [each for each in document.figures if each.name in OF_FIGURES]
    assert len(written) == sum(len(each.samples) for each in exported)
    assert not any("gpu/" in name for name in by_name)


def test_what_is_written_is_read_back_and_compared_with_itself(
    document: NodeCharacteristics,
) -> None:
    """Each figure finds all its samples, and no other's; times are those of a step or a call."""
    others = read_comm_scope(json.dumps(to_comm_scope(document)))
    pairs: dict[int, list[float]] = {}
    for figure, other in counterparts(document, others):
        assert figure.unit == other.unit
        pairs.setdefault(id(figure), []).append(other.value)
    for figure in document.figures:
        expected = figure.samples if figure.name in OF_FIGURES else []
        assert pairs.get(id(figure), []) == pytest.approx(expected), figure.name


def test_figures_without_samples_are_written_by_their_value(document: NodeCharacteristics) -> None:
    """A document of many GPUs has no room for their samples."""
    transfers = {each["name"] for each in to_comm_scope(document)["benchmarks"]}
    figures = [each.model_copy(update={"samples": []}) for each in document.figures]
    short = document.model_copy(update={"figures": figures})
    written = to_comm_scope(short)["benchmarks"]
    assert {each["name"] for each in written} == transfers
    assert len(written) == len(transfers)


def test_transfers_between_gpus_have_the_places_of_both() -> None:
    """Also the name that Comm|Scope misspells, and those that are of both ways at once."""
    setting = {"node": 0, "gpu": 1, "peer": 3, "bytes": 1 << 20}
    names = {
        "cudaMemcpyAsync_GPUToGPUPeer": "Comm_cudaMemcpyAsync_GPUToGPUPeer/1/3",
        "cudaMemcpyPeerAsync_GPUToGPU": "Comm_cudaMemcpyPeerAync_GPUToGPU/1/3",
        "UM_Prefetch_GPUToGPU": "Comm_UM_Prefetch_GPUToGPU/1/3",
        "ZeroCopy_GPUToGPU": "Comm_ZeroCopy_GPUToGPU_Read/1/3",
        "ZeroCopy_Duplex_GPUGPU_Write": "Comm_ZeroCopy_Duplex_GPUGPU_Write/1/3",
        "Demand_Duplex_GPUGPU": "Comm_Demand_Duplex_GPUGPU/1/3",
        "implicit_managed_GPUWrGPU": "Comm_implicit_managed_GPUWrGPU_fine/1/3",
        "implicit_mapped_GPURdHost": "Comm_implicit_mapped_GPURdHost/0/1",
        "cudaMemcpyAsync_HostToPinned": "Comm_cudaMemcpyAsync_HostToPinned/0/0",
    }
    figures = [a_figure(name, "bytes/s", 1e10, **setting) for name in names]
    document = a_node_document(figures=figures)
    written = to_comm_scope(document)["benchmarks"]
    assert {each["name"].partition("/log2")[0] for each in written} == set(names.values())
    assert written[0]["src_gpu"] == 1
    assert written[0]["dst_gpu"] == 3
    duplex = next(each for each in written if "Demand_Duplex" in each["name"])
    assert (duplex["gpu0"], duplex["gpu1"]) == (1, 3)
    found = list(counterparts(document, read_comm_scope(json.dumps({"benchmarks": written}))))
    assert len(found) == 2 * len(names)


def test_allocations_have_their_size_and_their_time() -> None:
    """As Comm|Scope has them, with the bytes in a second; they are compared by size and time."""
    setting = {"node": 0, "gpu": 1, "bytes": 1 << 20}
    names = {
        "libc_malloc": "Comm_libc_malloc/0/log2(N):20",
        "libc_malloc_memset": "Comm_libc_malloc_memset/0/log2(N):20/manual_time",
        "cudart_cudaMallocManaged": "Comm_cudart_cudaMallocManaged/0/1/log2(N):20",
        "UM_CudaMallocManaged_Memset": (
            "Comm_UM_CudaMallocManaged_Memset/0/1/log2(N):20/manual_time"
        ),
        "cudart_cudaMemcpyAsync_PinnedToGPU": (
            "Comm_cudart_cudaMemcpyAsync_PinnedToGPU/0/1/real_time"
        ),
    }
    document = a_node_document(figures=[a_figure(name, "ns", 2e3, **setting) for name in names])
    written = to_comm_scope(document)["benchmarks"]
    assert {each["name"] for each in written} == set(names.values())
    assert written[0]["bytes"] == 1 << 20
    assert written[0]["bytes_per_second"] * written[0]["real_time"] / 1e9 == pytest.approx(1 << 20)
    assert "bytes" not in written[-1]
    others = read_comm_scope(json.dumps({"benchmarks": written}))
    assert {each.unit for each in others} == {"ns"}
    assert len(list(counterparts(document, others))) == len(written)
    larger = written[0] | {"name": "Comm_libc_malloc/0/log2(N):21"}
    assert not list(counterparts(document, read_comm_scope(json.dumps({"benchmarks": [larger]}))))


def test_published_times_are_those_of_a_step_or_a_call() -> None:
    """In any unit of Google Benchmark; without a time, or steps, there is none."""
    entries = [
        {
            "name": "Comm_UM_Latency_GPUToHost/0/1/log2(N):10",
            "real_time": 0.5,
            "time_unit": "ms",
            "strides": 10,
        },
        {"name": "Comm_cudart_kernel/0/1/0/real_time/threads:1", "real_time": 2500.0},
        {"name": "Comm_cudaDeviceSynchronize/0/1/real_time/threads:1", "real_time": 400.0},
        {"name": "Comm_cudart_cudaGraphLaunch_kernel/0/1/16", "real_time": 3, "time_unit": "us"},
        {"name": "Comm_cudart_cudaGraphLaunch_kernel/0/1/16", "real_time": 3, "time_unit": "h"},
        {"name": "Comm_UM_Latency_GPUToHost/0/1/log2(N):0", "real_time": 5.0},
        {"name": "Comm_cudart_kernel/0", "real_time": 5.0},
        {"name": "Comm_cudart_kernel/0/1/0", "real_time": -5.0},
    ]
    found = read_comm_scope(json.dumps({"benchmarks": entries}))
    assert [(each.places, each.argument, each.value, each.unit) for each in found] == [
        ((0, 1), 10, 50_000.0, "ns"),
        ((0, 1), 0, 2500.0, "ns"),
        ((0, 1), 0, 400.0, "ns"),
        ((0, 1), 16, 3000.0, "ns"),
    ]


def test_gpus_and_their_tensor_cores_are_in_sentences(document: NodeCharacteristics) -> None:
    """Apart from the units of the CPU."""
    (gpu,) = gpu_sentences(document)
    assert gpu == (
        "GPU 0: NVIDIA H200, compute capability 9.0, 132 multiprocessors, 140 GiB of memory, "
        "60.0 MiB of second-level cache."
    )
    sentences = list(unit_sentences(document.matrix_units))
    assert (
        "GPU 0 offers tensor_tf32, tensor_bf16, tensor_fp16, tensor_int8, tensor_fp8." in sentences
    )
    assert any(each.startswith("cublas uses tensor_bf16: nvjet_sm90") for each in sentences)
    assert any(each.startswith("The CPU offers ") for each in sentences)


def _cells(document: NodeCharacteristics, name: str, **setting: str) -> tuple[str, ...]:
    figure = document.figure(name, **setting)
    assert isinstance(figure, NodeFigure)
    return figure_cells(figure)


def test_figures_of_gpus_name_their_places(document: NodeCharacteristics) -> None:
    """NUMA node, GPU, size, cache, nodes of a graph."""
    large = {"bytes": str(1 << 28)}
    assert _cells(document, "cudaMemcpyAsync_PinnedToGPU", **large)[:3] == (
        *("cudaMemcpyAsync_PinnedToGPU", "node 0 GPU 0 256 MiB", "55.4 GB/s"),
    )
    assert _cells(document, "cudaMemcpyAsync_GPUToPinned", cache="flushed")[1] == (
        "node 0 GPU 0 4.00 KiB flushed"
    )
    assert _cells(document, "cudart_cudaGraphLaunch_kernel", nodes="16")[1] == (
        "node 0 GPU 0 16 kernels"
    )
    assert _cells(document, "gpu/gemm", precision="BF16")[1:3] == (
        *("GPU 0 cublas BF16", "826 TFLOP/s"),
    )


def test_headlines_have_gpus_where_they_are_measured(document: NodeCharacteristics) -> None:
    """The CPU's stay the CPU's: its matrix product in FP32 is not the GPU's."""
    found = headlines(document)
    assert found["fp32"].setting["engine"] == "onnxruntime"
    assert found["gpuBf16"].value == pytest.approx(8.26e14, rel=1e-2)
    assert found["gpuMemory"].value == pytest.approx(3.95e12, rel=1e-2)
    assert found["toGpu"].setting["bytes"] == str(1 << 28)
    assert "gpuMemory" not in shown_headlines([a_node_document()])
    assert "gpuMemory" in shown_headlines([a_node_document(), document])


def test_pages_of_nodes_show_their_gpus(store: Store, document: NodeCharacteristics) -> None:
    """The list has columns of GPUs once a node has one; its page has all figures."""
    app = create_app(store, AccessRules(), "1.2.3", lambda: 0.0)
    keep_characteristics(store, a_node_document("node-1"))
    with TestClient(app, base_url="http://127.0.0.1:8090") as client:
        assert "GPU memory bandwidth" not in client.get("/measured-nodes").text
        keep_characteristics(store, document)
        listed = client.get("/measured-nodes").text
        assert "GPU memory bandwidth (copy)" in listed
        assert "<td>3,950 GB/s</td>" in listed
        page = client.get("/measured-node", params={"name": "gpu-node"}).text
        for words in (
            *("NVIDIA H200", "UM_Demand_HostToGPU", "826 TFLOP/s", "tensor_fp8", "gpu peers"),
            "GPU memory bandwidth",
        ):
            assert words in page
        other = client.get("/measured-node", params={"name": "node-1"}).text
        assert "GPU memory bandwidth" not in other


def test_gpus_of_other_models_are_not_compared(document: NodeCharacteristics) -> None:
    """Nodes with the same CPU stay equal in what the CPU gives."""

    def of(hostname: str, name: str, rate: float) -> NodeCharacteristics:
        gpu = document.machine.gpus[0].model_copy(update={"name": name})
        machine = document.machine.model_copy(update={"hostname": hostname, "gpus": [gpu]})
        figures = [
            a_figure("gpu/stream/copy", "bytes/s", rate, node=0, gpu=0),
            a_figure("disk/read", "bytes/s", 2e9),
        ]
        return document.model_copy(update={"id": hostname, "machine": machine, "figures": figures})

    nodes = histories([of("a", "H200", 4e12), of("b", "H200", 4e12), of("c", "T4", 3e11)])
    assert len({machine_kind(each[-1]) for each in nodes.values()}) == 1
    rows = {row.cells[0]: row.against_kind for row in figure_rows("c", nodes)}
    assert rows == {"gpu/stream/copy": DASH, "disk/read": "+0.0 %"}
    others = {row.cells[0]: row.against_kind for row in figure_rows("a", nodes)}
    assert others["gpu/stream/copy"] == "+0.0 %"
    assert all(not each.outliers for each in listed_nodes(nodes))
