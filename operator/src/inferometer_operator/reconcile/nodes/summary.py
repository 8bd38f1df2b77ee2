"""The summary of a node's document in the status."""

from collections.abc import Iterable

from inferometer_api.nodes.benchmark import NodeSummary
from inferometer_api.nodes.characteristics import NodeCharacteristics
from inferometer_api.nodes.headlines import gpu_words, headlines, machine_kind


def node_summary(document: NodeCharacteristics) -> NodeSummary:
    """Return the figures of a document that the status shows; absent ones were not measured."""
    found = headlines(document)
    jitter = document.figure("jitter/share")
    if jitter is not None:
        found["jitter"] = jitter

    def value(name: str, scale: int = 1) -> int | None:
        figure = found.get(name)
        return None if figure is None else max(0, min(2**53 - 1, round(figure.value * scale)))

    return NodeSummary(
        machine=machine_kind(document)[:253],
        memory_bytes_per_second=value("memory"),
        load_latency_picoseconds=value("loadLatency", 1000),
        fp32_flops=value("fp32"),
        disk_read_bytes_per_second=value("disk"),
        wake_up_lag_nanoseconds=value("wakeUpLag"),
        stolen_parts_per_million=value("steal", 1_000_000),
        standstill_parts_per_million=value("jitter", 1_000_000),
        gpus=gpu_words(document)[:253] or None,
        gpu_memory_bytes_per_second=value("gpuMemory"),
        gpu_bf16_flops=value("gpuBf16"),
        to_gpu_bytes_per_second=value("toGpu"),
    )


def memory_span(summaries: Iterable[NodeSummary | None]) -> str:
    """Return the memory bandwidth of the slowest and the fastest node: "11.2 to 25.0 GB/s"."""
    rates = sorted(
        each.memory_bytes_per_second
        for each in summaries
        if each is not None and each.memory_bytes_per_second is not None
    )
    if not rates:
        return ""
    words = [f"{rate / 1e9:.1f}" for rate in rates]
    return f"{words[0]} GB/s" if words[0] == words[-1] else f"{words[0]} to {words[-1]} GB/s"
