"""Analysis A1: throughput by batch size, and the best batch size by three rules."""

import pytest

from inferometer_analysis.models import (
    batch_at_knee,
    batch_of_maximum,
    batch_within,
    model_information,
)

GROWTH = {64: 1.082, 128: 1.036, 256: 1.039}
"""Throughput of ResNet50 v1.5 on a V100 against half the batch size (XSP, table VI)."""


def _of_xsp() -> dict[int, float]:
    throughput, latency = 800.0, {32: 32e9 / 800.0}
    for size, growth in GROWTH.items():
        throughput *= growth
        latency[size] = size * 1e9 / throughput
    return latency


def test_the_published_batch_is_the_maximum_and_not_the_knee() -> None:
    """XSP reports 256, the maximum; the rule that it states gives 64."""
    rows = model_information(_of_xsp())
    assert batch_of_maximum(rows) == 256
    assert batch_at_knee(rows) == 64
    assert batch_at_knee(rows, gain=0.037) == 64
    assert batch_at_knee(rows, gain=0.03) is None


def test_throughput_is_samples_by_latency() -> None:
    """275.1 ms at batch 256 are 930.6 samples/s, as CarML's table has them (930.7)."""
    (row,) = model_information({256: 275.1e6})
    assert row.samples_per_second == pytest.approx(930.7, rel=2e-4)


def test_a_latency_target_limits_the_batch() -> None:
    """The best batch within a latency has the highest throughput of those that keep it."""
    rows = model_information(_of_xsp())
    assert batch_within(rows, 80e6) == 64
    assert batch_within(rows, 1e6) is None
