"""Analyses A2 to A7: layers, their latency, memory and types."""

import pytest

from inferometer_analysis.layers import (
    ProfiledLayer,
    layer_information,
    layer_latency,
    layer_memory,
    layer_types,
    thirds,
)

LAYERS = [
    ProfiledLayer(0, "a", "Conv", (1, 8), (100, 110, 90), 32),
    ProfiledLayer(1, "b", "Relu", (1, 8), (20, 20, 20), 32),
    ProfiledLayer(2, "c", "Conv", (1, 4), (60, 60, 60), 16, kernel="brgconv"),
    ProfiledLayer(3, "loop", "Loop", (1,), (20, 20, 20)),
    ProfiledLayer(4, "inner", "Add", (1,), (15, 15, 15), 4, outer=3),
]


def test_a2_lists_layers_by_latency() -> None:
    """Each layer has the trimmed mean of its runs and its share of all outermost layers."""
    rows = layer_information(LAYERS)
    assert [row.layer.name for row in rows] == ["a", "c", "b", "loop", "inner"]
    assert [row.latency_ns for row in rows] == [100, 60, 20, 20, 15]
    assert sum(row.share for row in rows if row.layer.outer is None) == pytest.approx(1)


def test_a3_and_a4_are_in_order() -> None:
    """Latency and memory come in the order of execution; memory only where it is known."""
    assert layer_latency(LAYERS[::-1]) == [(0, 100), (1, 20), (2, 60), (3, 20), (4, 15)]
    assert layer_memory(LAYERS) == [(0, 32), (1, 32), (2, 16), (4, 4)]


def test_a5_to_a7_sum_by_type() -> None:
    """Types have counts, latency and memory; a layer within another is not summed twice."""
    rows = {row.operator: row for row in layer_types(LAYERS)}
    assert list(rows) == ["Conv", "Relu", "Loop"]
    conv = rows["Conv"]
    assert (conv.count, conv.latency_ns, conv.output_bytes) == (2, 160, 48)
    assert (conv.count_share, conv.latency_share, conv.bytes_share) == (0.5, 0.8, 0.6)
    assert conv.kernels == ("brgconv",)


def test_thirds_are_by_index() -> None:
    """Beginning, middle and end of the model have their sums."""
    assert thirds(LAYERS[::-1], lambda layer: layer.latency_ns) == (120, 60, 20)
