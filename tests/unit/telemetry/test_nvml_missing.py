"""The figures of GPUs if NVML, a GPU or one answer is missing."""

import shutil
from pathlib import Path

import pynvml  # type: ignore[import-untyped] # it ships no types
import pytest

from inferometer_telemetry.gpu.nvml_recorded import RecordedNvml
from inferometer_telemetry.gpu.source import Gpus, open_gpus
from inferometer_telemetry.gpu.totals import GAP_NS
from support.recorded_gpus import (
    DRIVER_NOT_LOADED,
    GPU_IS_LOST,
    NO_PERMISSION,
    SECOND,
    Function,
    GpuNode,
    joules,
    owners,
    reasons,
)


@pytest.fixture
def node(tmp_path: Path) -> GpuNode:
    """Return a node with one GPU."""
    return GpuNode(tmp_path / "nvml")


@pytest.mark.parametrize(
    ("function", "what"),
    [
        ("nvmlDeviceGetMemoryInfo", "its memory"),
        ("nvmlDeviceGetClockInfo", "its clock"),
        ("nvmlDeviceGetTemperature", "its temperature"),
        ("nvmlDeviceGetCurrentClocksEventReasons", "why its clock is held down"),
        ("nvmlDeviceGetComputeRunningProcesses", "its processes"),
        ("nvmlDeviceGetPowerUsage", "its power"),
    ],
)
def test_one_refused_nvml_call_costs_no_other_reading(
    node: GpuNode, function: Function, what: str
) -> None:
    """What NVML does not support or permit is missing with NVML's word; the rest goes on."""
    node.gpus[0].refuse(function, NO_PERMISSION)
    found = node.read()
    assert reasons(found) == (
        f"{node.gpus[0].uuid}: NVML does not report {what}: Insufficient Permissions"
    )
    assert found.missing[0].source == "nvml"
    assert joules(found) == {"gpu-0": 0.0}


def test_neither_counter_nor_power_is_no_zero(node: GpuNode) -> None:
    """A GPU that reports nothing of energy has no domain, and two reasons."""
    node.gpus[0].refuse("nvmlDeviceGetTotalEnergyConsumption")
    node.gpus[0].refuse("nvmlDeviceGetPowerUsage")
    found = node.read()
    assert found.energy == []
    assert "it has no energy counter, and its power is not available: Not Supported" in reasons(
        found
    )
    assert len(found.gpus) == 1


def test_a_counter_that_is_silent_for_a_moment_goes_on(node: GpuNode) -> None:
    """While it is missing there is no domain; then the whole difference, by the same method."""
    node.read()
    node.gpus[0].refuse("nvmlDeviceGetTotalEnergyConsumption", NO_PERMISSION)
    found = node.read(1)
    assert found.energy == []
    assert "its energy counter is not available: Insufficient Permissions" in reasons(found)
    node.gpus[0].energy(5_002_000)
    found = node.read(1)
    assert [(each.method, each.microjoules) for each in found.energy] == [("Counter", 2_000_000)]


def test_a_counter_that_was_read_is_never_left_for_power(node: GpuNode) -> None:
    """A driver that gives it up later leaves the energy missing: two ways are not one total."""
    node.gpus[0].refuse("nvmlDeviceGetTotalEnergyConsumption", NO_PERMISSION)
    node.read()
    node.gpus[0].energy(5_000_000)
    node.read(1)
    node.gpus[0].refuse("nvmlDeviceGetTotalEnergyConsumption")
    found = node.read(1)
    assert found.energy == []
    assert "its energy counter is not available: Not Supported" in reasons(found)
    node.gpus[0].energy(5_002_000)
    assert joules(node.read(1)) == {"gpu-0": 2.0}


def test_power_stays_power_when_a_counter_comes(node: GpuNode) -> None:
    """A GPU whose power is summed up goes on so, whatever its driver learns."""
    node.gpus[0].refuse("nvmlDeviceGetTotalEnergyConsumption")
    node.read()
    node.gpus[0].energy(9_000_000)
    found = node.read(2)
    assert [(each.method, each.microjoules) for each in found.energy] == [
        ("PowerIntegral", 100_000_000)
    ]


def test_gpus_that_change_places_keep_their_figures(tmp_path: Path) -> None:
    """After a new start of the driver each GPU counts on by its UUID, at its new index."""
    node = GpuNode(tmp_path / "nvml", count=2)
    one, two = node.gpus
    node.read()
    one.energy(5_001_000)
    two.energy(5_002_000)
    one.refuse("nvmlDeviceGetMemoryInfo", DRIVER_NOT_LOADED)
    node.read(1)
    one.report("nvmlDeviceGetMemoryInfo", "total 2\nfree 1\nused 1")
    one.folder.rename(node.root / "kept")
    two.folder.rename(node.root / "gpu-0")
    (node.root / "kept").rename(node.root / "gpu-1")
    found = node.read(60)
    assert joules(found) == {"gpu-0": 2.0, "gpu-1": 1.0}
    assert [(each.index, each.uuid) for each in found.gpus] == [(0, two.uuid), (1, one.uuid)]


def test_a_counter_that_went_back_is_not_believed(node: GpuNode) -> None:
    """After a new start of the driver the energy is missing, until the agent is started anew."""
    node.read()
    node.gpus[0].energy(10)
    for _ in range(2):
        found = node.read(1)
        assert found.energy == []
        assert "its energy counter went back" in reasons(found)


def test_unread_power_is_not_made_up(node: GpuNode) -> None:
    """After a gap that is longer than any interval, the sum of power is missing."""
    node.gpus[0].refuse("nvmlDeviceGetTotalEnergyConsumption")
    node.read()
    assert joules(node.read(GAP_NS / SECOND)) == {"gpu-0": pytest.approx(50 * GAP_NS / SECOND)}
    found = node.read(GAP_NS / SECOND + 1)
    assert found.energy == []
    assert "its power was not available for more than" in reasons(found)


def test_a_lost_gpu_leaves_the_others(tmp_path: Path) -> None:
    """A GPU that fell off the bus is missing by its UUID; it counts on when it is back."""
    node = GpuNode(tmp_path / "nvml", count=2)
    node.read()
    lost, left = node.gpus
    lost.refuse("nvmlDeviceGetMemoryInfo", GPU_IS_LOST)
    left.energy(5_001_000)
    found = node.read(1)
    assert joules(found) == {"gpu-1": 1.0}
    assert reasons(found) == f"{lost.uuid}: the GPU does not answer: GPU is lost"
    lost.report("nvmlDeviceGetMemoryInfo", "total 2\nfree 1\nused 1")
    lost.energy(5_090_000)
    assert reasons(node.read(1)) != ""
    assert joules(node.read(60)) == {"gpu-0": 90.0, "gpu-1": 1.0}


def test_a_driver_that_goes_and_comes_is_found_again(node: GpuNode, tmp_path: Path) -> None:
    """While it is away everything is missing with the reason; its GPUs go on where they were."""
    node.read()
    moved = tmp_path / "moved"
    node.root.rename(moved)
    found = node.read(1)
    assert (found.gpus, found.energy) == ([], [])
    assert "does not answer" in reasons(found)
    moved.rename(node.root)
    node.gpus[0].refuse("nvmlDeviceGetMemoryInfo", DRIVER_NOT_LOADED)
    assert reasons(node.read(60)) == ": NVIDIA's driver went away: Driver Not Loaded"
    node.gpus[0].report("nvmlDeviceGetMemoryInfo", "total 2\nfree 1\nused 1")
    node.gpus[0].energy(5_003_000)
    assert joules(node.read(1)) == {}
    assert joules(node.read(60)) == {"gpu-0": 3.0}


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (9, "NVIDIA's driver is not loaded"),
        (12, "no NVIDIA driver's library (libnvidia-ml.so.1) was found"),
        (18, "the NVIDIA driver's library is of another version than its kernel module"),
        (4, "the agent may not open NVIDIA's devices (/dev/nvidia*)"),
        (999, "NVML does not start: Unknown Error"),
    ],
)
def test_the_reason_for_a_missing_driver_is_reported(
    tmp_path: Path, error: int, reason: str
) -> None:
    """NVML's own errors at its start are reported with their meaning here."""
    (tmp_path / "nvmlInit").write_text(f"error {error}")
    found = open_gpus(tmp_path).read(0, [], owners)
    assert [(each.source, each.subject, each.reason) for each in found.missing] == [
        ("nvml", "", reason)
    ]


def test_no_library_and_no_gpu_are_reported(tmp_path: Path) -> None:
    """A machine without the driver's library says so, and so does a driver without a GPU."""
    absent = open_gpus(tmp_path / "absent").read(0, [], owners)
    assert reasons(absent) == ": no NVIDIA driver's library (libnvidia-ml.so.1) was found"
    assert reasons(open_gpus(tmp_path).read(0, [], owners)) == ": NVIDIA's driver knows no GPU"
    (tmp_path / "nvmlInit").mkdir()
    unreadable = open_gpus(tmp_path).read(0, [], owners)
    assert reasons(unreadable).startswith(": NVML does not start: [Errno 21] Is a directory")


def test_a_file_that_is_no_answer_is_named(node: GpuNode) -> None:
    """What cannot be read of a recorded tree is missing, with the file's name."""
    node.gpus[0].report("nvmlDeviceGetPowerUsage", "fifty")
    found = node.read()
    assert "gpu-0/nvmlDeviceGetPowerUsage is no answer of nvmlDeviceGetPowerUsage" in reasons(found)
    assert joules(found) == {"gpu-0": 0.0}


def test_nothing_is_read_after_the_end(node: GpuNode) -> None:
    """Closing twice is harmless, and a tree may go away meanwhile."""
    node.read()
    shutil.rmtree(node.root)
    node.source.close()
    node.source.close()


def test_a_gpu_without_permission_leaves_the_others(tmp_path: Path) -> None:
    """One of several GPUs that a container was not given is missing; the other is reported."""
    node = GpuNode(tmp_path / "nvml", count=2)

    def call(function: str, *arguments: object) -> object:
        if (function, *arguments) == ("nvmlDeviceGetHandleByIndex", 0):
            raise pynvml.NVMLError(NO_PERMISSION)
        return RecordedNvml(node.root)(function, *arguments)

    node.source = Gpus(call, all_seen=True)
    found = node.read()
    assert joules(found) == {"gpu-1": 0.0}
    assert reasons(found) == "gpu-0: the GPU does not answer: Insufficient Permissions"
