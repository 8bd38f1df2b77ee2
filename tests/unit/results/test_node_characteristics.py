"""Characteristics of nodes are kept, worded, and exchanged with Comm|Scope."""

import json
from pathlib import Path

import pytest

from inferometer_api.nodes.characteristics import (
    MachineIdentity,
    MatrixUnit,
    NodeCharacteristics,
    NodeFigure,
)
from inferometer_results.nodes.comm_scope import (
    NotCommScopeError,
    counterparts,
    read_comm_scope,
    to_comm_scope,
)
from inferometer_results.nodes.wording import figure_cells, unit_sentences
from inferometer_results.quantity import DASH
from inferometer_results.store.node_characteristics import (
    keep_characteristics,
    known_characteristics,
)
from inferometer_results.store.store import Store

MIB = 1 << 20


def _figure(name: str = "memcpy", **changes: object) -> NodeFigure:
    figure = NodeFigure(
        name=name,
        setting={"source": "0", "destination": "1", "bytes": str(MIB)},
        unit="bytes/s",
        value=8e9,
        low=7.5e9,
        high=8.5e9,
        best=9e9,
        samples=[7e9, 9e9],
    )
    return figure.model_copy(update=changes)


def _document(**changes: object) -> NodeCharacteristics:
    document = NodeCharacteristics(
        id="a" * 32,
        inferometer_version="0.1.0",
        started_at="2026-01-01T00:00:00Z",
        finished_at="2026-01-01T00:02:00Z",
        machine=MachineIdentity(
            hostname="node-1",
            architecture="x86_64",
            kernel="6.18",
            cpu_model="A CPU",
            cpu_count=2,
            memory_bytes=1 << 34,
            last_level_cache_bytes=1 << 25,
            numa_nodes=2,
        ),
        figures=[_figure(), _figure("stream/copy", setting={"threads": "2"})],
    )
    return document.model_copy(update=changes)


def test_copies_have_the_names_and_counters_of_comm_scope() -> None:
    """What is written is read back, with one entry for each sample; other figures stay out."""
    written = to_comm_scope(_document())
    names = [each["name"] for each in written["benchmarks"]]
    assert names == ["libc_memcpy_NUMAToNUMA/0/1/log2(N):20"] * 2
    assert written["benchmarks"][0]["src_id"] == 0
    found = read_comm_scope(json.dumps(written))
    assert [(each.places, each.argument, each.value) for each in found] == [
        ((0, 1), MIB, 7e9),
        ((0, 1), MIB, 9e9),
    ]


def test_published_results_are_read() -> None:
    """Names with and without a prefix, flushed caches, sizes in counters; means are left out."""
    entries = [
        {
            "name": "Comm_cudaMemcpyAsync_PinnedToGPU_flush/0/1/log2(N):16/manual_time",
            "run_type": "iteration",
            "bytes": 65536,
            "bytes_per_second": 1.5e10,
            "cuda_id": 1,
            "numa_id": 0,
        },
        {"name": "Comm_UM_Latency_GPUToHost/0/0", "real_time": 5.0},
        {"name": "x_mean", "run_type": "aggregate", "bytes_per_second": 1.0},
        {"name": "x/0/0/12", "error_occurred": True, "bytes_per_second": 1.0},
    ]
    (found,) = read_comm_scope(json.dumps({"benchmarks": entries}))
    assert found.name == "cudaMemcpyAsync_PinnedToGPU"
    assert (found.places, found.argument, found.is_flushed) == ((0, 1), 65536, True)


@pytest.mark.parametrize("of", ["mean", "median", "stddev", "cv", "BigO", "RMS"])
@pytest.mark.parametrize(
    "name", ["Comm_cudaMemcpyAsync_PinnedToGPU/0/1/log2(N):16", "Comm_UM_Latency_GPUToHost/0/0"]
)
def test_figures_over_repetitions_of_old_files_are_no_results(name: str, of: str) -> None:
    """Google Benchmark before 1.5 names them so, and writes no run_type."""
    figures = {"bytes": 65536, "bytes_per_second": 1.5e10, "real_time": 5.0, "strides": 1}
    entries = [
        {"name": f"{name}/manual_time{end}", "time_unit": "ns", **figures} for end in ("", f"_{of}")
    ]
    assert len(read_comm_scope(json.dumps({"benchmarks": entries}))) == 1


_COPY = '"name": "libc_memcpy_NUMAToNUMA/0/1/log2(N):20"'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"benchmarks": []}',
        '{"benchmarks": null}',
        '{"benchmarks": 5}',
        '{"benchmarks": {"name": 1}}',
        "[" * 100_000 + "]" * 100_000,
        *(
            f'{{"benchmarks": [{{{_COPY}, "bytes_per_second": {rate}}}]}}'
            for rate in ("0", "-5", "NaN", "Infinity", "1e999", "true", '"5"', "9" * 400)
        ),
    ],
)
def test_other_files_are_refused(text: str) -> None:
    """The message says what is missing."""
    with pytest.raises(NotCommScopeError, match="The file"):
        read_comm_scope(text)


@pytest.mark.parametrize("size", ["NaN", "1e999", "-1", "null", '"a"', "true"])
def test_a_size_that_is_no_number_is_that_of_the_name(size: str) -> None:
    """The name of a copy has its size too."""
    text = f'{{"benchmarks": [{{{_COPY}, "bytes_per_second": 5, "bytes": {size}}}]}}'
    (found,) = read_comm_scope(text)
    assert (found.argument, found.value) == (MIB, 5.0)


@pytest.mark.parametrize("place", ["null", '"a"', "NaN", "[]"])
def test_a_place_that_is_no_number_is_left_out(place: str) -> None:
    """The others are read."""
    text = f'{{"benchmarks": [{{"name": "x", "bytes_per_second": 5, "numa_id": {place}, '
    (found,) = read_comm_scope(text + '"cuda_id": 1}]}')
    assert found.places == (1,)


def test_the_same_copies_are_compared() -> None:
    """Only those of the same nodes and size, with warm caches."""
    others = read_comm_scope(json.dumps(to_comm_scope(_document())))
    ((figure, other), *more) = counterparts(_document(), others)
    assert (figure.name, other.argument) == ("memcpy", MIB)
    assert len(more) == 1
    elsewhere = _document(figures=[_figure(setting={**_figure().setting, "source": "1"})])
    assert list(counterparts(elsewhere, others)) == []


def test_figures_have_units_and_intervals() -> None:
    """Rates in decimal GB/s; unknown ends are a dash."""
    assert figure_cells(_figure(low=None)) == (
        "memcpy",
        "1.00 MiB node 0 to 1",
        "8.00 GB/s",
        DASH,
        "8.50 GB/s",
        "9.00 GB/s",
    )


def test_a_numa_node_alone_is_named() -> None:
    """The CPUs and memory of one NUMA node differ from as many threads anywhere."""
    setting = {"threads": "2", "node": "1", "loops": "AVX2"}
    assert figure_cells(_figure(setting=setting))[1] == "2 threads node 1 AVX2"


def test_units_are_in_sentences() -> None:
    """What is offered, and which kernels use it."""
    units = [
        MatrixUnit(name="amx_bf16", offered=True, used_by={"openvino": ["brgemm_amx"]}),
        MatrixUnit(name="avx2", offered=False),
    ]
    assert list(unit_sentences(units)) == [
        "The CPU offers amx_bf16.",
        "openvino uses amx_bf16: brgemm_amx.",
    ]


def test_measurements_of_a_node_are_kept_in_order(tmp_path: Path) -> None:
    """They are documents of their own kind: no list of results has them."""
    with Store(str(tmp_path / "results.db")) as store:
        for number in (1, 2):
            keep_characteristics(store, _document(id=str(number) * 32))
        assert [each.id[0] for each in known_characteristics(store)] == ["1", "2"]
        assert len(known_characteristics(store, "node-1")) == 2
        assert known_characteristics(store, "node-2") == []
        assert store.read("1" * 32).content
