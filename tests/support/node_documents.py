"""Measurements of nodes for tests."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from inferometer_api.nodes.characteristics import (
    MachineIdentity,
    NodeCharacteristics,
    NodeFigure,
    Unit,
)

_RECORDED = Path(__file__).parents[1] / "data" / "nodes" / "1.0-h200.json"


def a_figure(name: str, unit: Unit, value: float, **setting: object) -> NodeFigure:
    """Return a figure with an interval of 5 % to both sides."""
    return NodeFigure(
        name=name,
        setting={key: str(each) for key, each in setting.items()},
        unit=unit,
        value=value,
        low=0.95 * value,
        high=1.05 * value,
        best=value,
        samples=[0.95 * value, 1.05 * value],
    )


def require_figures(found: Iterable[NodeFigure], names: Iterable[str]) -> None:
    """Require figures of exactly these names, above 0 and each of 5 samples at least."""
    figures = list(found)
    assert {each.name for each in figures} == set(names)
    assert all(each.value > 0 for each in figures)
    assert all(len(each.samples) >= 5 for each in figures)


def a_node_document(
    hostname: str = "node-1",
    *,
    triad: float = 2e10,
    day: int = 1,
    cpu_model: str = "A CPU",
    **changes: Any,
) -> NodeCharacteristics:
    """Return what a node gives, with this memory bandwidth, as measured on this day."""
    document = NodeCharacteristics(
        id=f"{hostname}-{day}",
        inferometer_version="0.1.0",
        started_at=f"2026-01-{day:02}T00:00:00.000Z",
        finished_at=f"2026-01-{day:02}T00:02:00.000Z",
        machine=MachineIdentity(
            hostname=hostname,
            architecture="x86_64",
            kernel="6.18",
            cpu_model=cpu_model,
            cpu_count=2,
            memory_bytes=1 << 34,
            last_level_cache_bytes=1 << 25,
            numa_nodes=1,
        ),
        figures=[
            a_figure("stream/triad", "bytes/s", triad / 2, threads=1),
            a_figure("stream/triad", "bytes/s", triad, threads=2),
            a_figure("latency/load", "ns", 1.5, bytes=16384),
            a_figure("latency/load", "ns", 95.25, bytes=1 << 28),
            a_figure("gemm", "flop/s", 1.1e11, engine="onnxruntime", precision="FP32"),
            a_figure("gemm", "flop/s", 1.2e11, engine="openvino", precision="FP32"),
            a_figure("gemm", "flop/s", 4e11, engine="openvino", precision="INT8"),
            a_figure("timer/wakeUpLag", "ns", 60_000, percentile=50),
            a_figure("timer/wakeUpLag", "ns", 90_000, percentile=99),
            a_figure("steal", "share", 0.0005),
        ],
    )
    return document.model_copy(update=changes)


def recorded_gpu_node() -> NodeCharacteristics:
    """Return what `inferometer node` found on a machine with an NVIDIA H200, on 2026-11-26.

    STREAM and the latency of loads of its host are left out.
    """
    return NodeCharacteristics.read_json(_RECORDED.read_text())
