"""Analyses A8 to A15, against the figures that XSP published."""

import pytest

from inferometer_analysis.kernels import (
    MEBIBYTE,
    Kernel,
    Processor,
    gpu_and_other_latency,
    kernel_information,
    kernel_roofline,
    kernels_by_layer,
    kernels_by_name,
    kernels_of_model,
    layer_roofline,
    metrics_by_layer,
    with_work,
)

V100 = Processor(15.7e12, 900e9)
PROCESSORS = {
    "V100": (V100, 17.44),
    "RTX6000": (Processor(16.3e12, 624e9), 26.12),
    "P100": (Processor(9.3e12, 732e9), 12.70),
    "P4": (Processor(5.5e12, 192e9), 28.65),
    "M60": (Processor(4.8e12, 160e9), 30.0),
}
INTENSITIES = {
    1: 19.58,
    2: 23.78,
    4: 21.40,
    8: 18.23,
    16: 16.10,
    32: 16.40,
    64: 20.26,
    128: 25.89,
    256: 30.61,
}
"""Flops per byte of all kernels of ResNet50 v1.5 by batch size (table VI)."""
KERNELS = [
    Kernel("scudnn", 12.0e6, 77.42e9, 40.33 * MEBIBYTE, 43.86 * MEBIBYTE, 0.2, layer=3),
    Kernel("scudnn", 4.0e6, 20.0e9, 10 * MEBIBYTE, 10 * MEBIBYTE, 0.6, layer=4),
    Kernel("relu", 4.0e6, 0.01e9, 100 * MEBIBYTE, 100 * MEBIBYTE, 0.9, layer=4),
    Kernel("memset", 1.0e6, 0.0, 0.0, 0.0),
]


@pytest.mark.parametrize(("processor", "ideal"), PROCESSORS.values(), ids=list(PROCESSORS))
def test_the_ideal_intensity_is_peak_over_bandwidth(processor: Processor, ideal: float) -> None:
    """The ridge of each published roofline is found; for P4 and M60 from the printed peaks."""
    assert processor.ideal_intensity == pytest.approx(ideal, abs=0.01)


def test_a8_has_the_published_intensity() -> None:
    """77.42 Gflop over 84.19 MiB are 876.97 flop/byte: XSP's MB are mebibytes."""
    rows = kernel_information(KERNELS, 25e6)
    kernel, row = rows[0]
    assert kernel is KERNELS[0]
    assert row.intensity == pytest.approx(876.97, abs=0.02)
    assert row.flops_per_second == pytest.approx(77.42e9 / 12e-3)
    assert not row.is_memory_bound(V100)
    assert rows[-1][1].intensity == float("inf")


@pytest.mark.parametrize(("batch", "intensity"), INTENSITIES.items())
def test_a15_is_memory_bound_at_batch_16_and_32_alone(batch: int, intensity: float) -> None:
    """Below 17.44 flop/byte a V100 is memory-bound: at batch 16 and 32, as published."""
    row = kernels_of_model([Kernel("all", 1e6, intensity * 1e9, 0.5e9, 0.5e9)], 1e6)
    assert row.intensity == pytest.approx(intensity)
    assert row.is_memory_bound(V100) == (batch in {16, 32})


def test_a9_is_a_point_for_each_kernel() -> None:
    """The roofline has intensity and throughput of every kernel, and what it could reach."""
    kernel, intensity, flops_per_second = kernel_roofline(KERNELS)[2]
    assert kernel.name == "relu"
    assert intensity == pytest.approx(0.01e9 / (200 * MEBIBYTE))
    assert flops_per_second == pytest.approx(2.5e9)
    row = kernel_information([kernel], 1.0)[0][1]
    assert row.roofline_share(V100) == pytest.approx(200 * MEBIBYTE / 900e9 / 4e-3)


def test_a10_a11_and_a12_sum_and_weigh() -> None:
    """Latency, flops and bytes are summed; occupancy is weighted by latency."""
    by_name = kernels_by_name(KERNELS, 25e6)
    assert list(by_name) == ["scudnn", "relu", "memset"]
    assert by_name["scudnn"].count == 2
    assert by_name["scudnn"].latency_share == pytest.approx(0.64)
    assert by_name["scudnn"].occupancy == pytest.approx(0.3)
    by_layer = kernels_by_layer(KERNELS, 25e6)
    assert list(by_layer) == [3, 4, None]
    assert by_layer[4].flops == pytest.approx(20.01e9)
    assert metrics_by_layer(KERNELS)[4][1:] == (110 * MEBIBYTE, 110 * MEBIBYTE)
    assert layer_roofline(KERNELS)[4][0] == pytest.approx(20.01e9 / (220 * MEBIBYTE))


def test_a13_leaves_what_kernels_do_not_explain() -> None:
    """The latency of a layer without that of its kernels is not on the GPU."""
    found = gpu_and_other_latency({3: 12.5e6, 4: 8.0e6, 5: 0.1e6}, KERNELS)
    assert found == {3: (12.0e6, 0.5e6), 4: (8.0e6, 0.0), 5: (0.0, 0.1e6)}


def test_what_is_not_known_of_one_kernel_is_not_known_of_all() -> None:
    """Unknown flops or bytes make no sum, intensity or bound; the latency stays."""
    unknown = Kernel("conv", 2.0e6, None, None, None, None, layer=4, has_tensor_cores=True)
    row = kernels_by_layer([*KERNELS, unknown], 25e6)[4]
    assert (row.flops, row.intensity, row.flops_per_second, row.occupancy) == (None,) * 4
    assert row.is_memory_bound(V100) is None
    assert row.roofline_share(V100) is None
    assert row.latency_ns == pytest.approx(10.0e6)
    assert row.has_tensor_cores


def test_the_work_of_layers_takes_the_place_of_counters() -> None:
    """Layers whose work is known have it, the others nothing."""
    rows = with_work(kernels_by_layer(KERNELS, 25e6), {4: (4.0e9, 3.0e6, 1.0e6)})
    assert rows[4].intensity == pytest.approx(1000)
    assert rows[4].flops_per_second == pytest.approx(5.0e11)
    assert rows[3].flops is None
    assert rows[None].intensity is None
