"""GPUs yield the energy and busy time of a recorded tree."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer_telemetry.gpu import source as gpu_module
from inferometer_telemetry.gpu.nvml_recorded import FUNCTIONS, RecordedNvml
from inferometer_telemetry.gpu.snapshot import REASONS, throttle_reasons
from inferometer_telemetry.gpu.source import Gpus, in_first_pid_namespace
from inferometer_telemetry.gpu.totals import GAP_NS, Integral
from inferometer_telemetry.sources import Target
from support.recorded_gpus import (
    HW_THERMAL_SLOWDOWN,
    MICROSECONDS,
    NO_PERMISSION,
    ONE,
    OTHER,
    OWNERS,
    SECOND,
    SW_POWER_CAP,
    Function,
    GpuNode,
    RecordedGpu,
    busy,
    joules,
    reasons,
)


@pytest.fixture
def node(tmp_path: Path) -> GpuNode:
    """Return a node with one GPU."""
    return GpuNode(tmp_path / "nvml")


def test_counters_of_two_gpus_are_given_back(tmp_path: Path) -> None:
    """Each GPU's joules since the start are those of its own counter, whatever it began at."""
    node = GpuNode(tmp_path / "nvml", count=2)
    assert joules(node.read()) == {"gpu-0": 0.0, "gpu-1": 0.0}
    node.gpus[0].energy(5_000_000 + 123_456)
    node.gpus[1].energy(5_000_000 + 7)
    found = node.read(1)
    assert joules(found) == {"gpu-0": 123.456, "gpu-1": 0.007}
    assert {each.method for each in found.energy} == {"Counter"}
    assert [each.gpu_uuid for each in found.energy] == [each.uuid for each in node.gpus]
    assert found.missing == []


def test_power_is_summed_up_where_there_is_no_counter(tmp_path: Path) -> None:
    """Two GPUs whose power swings give back their joules within 1 %, read at uneven times."""
    node = GpuNode(tmp_path / "nvml", count=2)
    swings: list[Callable[[float], float]] = [
        lambda at: 200 + 100 * math.sin(at / 3),
        lambda at: 70 + 2 * at,
    ]
    known = [200 * 60 + 300 * (1 - math.cos(20)), 70 * 60 + 3600]
    for gpu in node.gpus:
        gpu.refuse("nvmlDeviceGetTotalEnergyConsumption")
    at = 0.0
    for step in [0.0, *[1.0] * 29, 0.3, 0.7, *[1.0] * 30]:
        at += step
        for gpu, watts in zip(node.gpus, swings, strict=True):
            gpu.power(round(watts(at) * 1000))
        found = node.read(step)
    assert at == pytest.approx(60)
    assert list(joules(found).values()) == pytest.approx(known, rel=0.01)
    assert {each.method for each in found.energy} == {"PowerIntegral"}
    assert found.missing == []


@given(
    st.lists(st.integers(0, GAP_NS), min_size=1, max_size=20),
    st.integers(0, 10**6),
    st.integers(0, 1000),
)
def test_a_line_is_summed_up_exactly(steps_ns: list[int], start: int, slope: int) -> None:
    """Trapezoids take a figure that grows in a straight line without error, however it is read."""
    integral = Integral(trapezoid=True)
    now, total = 0, integral.advance(0, start)
    for step in steps_ns:
        now += step
        total = integral.advance(now, start + slope * now)
    assert total == (2 * start + slope * now) * now // 2


def test_busy_time_is_shared_by_process(node: GpuNode) -> None:
    """Three processes of two targets and a stranger get their parts of the GPU's time, to 1 %."""
    gpu = node.gpus[0]
    gpu.processes([11, 12, 22, 33])
    node.read()
    for _ in range(60):
        node.now_ns += SECOND
        rows = [(11, 30), (12, 10), (22, 40), (33, 20)]
        gpu.samples((process, node.stamp, percent) for process, percent in rows)
        gpu.utilization(90)
        found = node.read()
    assert busy(found) == {
        ONE: pytest.approx(0.4 * 60 * MICROSECONDS, rel=0.01),
        OTHER: pytest.approx(0.4 * 60 * MICROSECONDS, rel=0.01),
    }
    (reading,) = found.gpus
    assert reading.busy_microseconds == 54 * MICROSECONDS, "the GPU's own utilisation"
    assert reading.foreign is True
    assert node.read(requested=[ONE]).uses.keys() == {ONE}


def test_a_sample_of_more_than_all_is_all(node: GpuNode) -> None:
    """No process keeps a GPU busy for longer than the time that went by."""
    node.gpus[0].processes([11])
    node.gpus[0].samples([(11, node.stamp, 100)])
    node.read()
    node.now_ns += SECOND
    node.gpus[0].samples([(11, node.stamp, 250)])
    assert busy(node.read()) == {ONE: MICROSECONDS}


def test_a_gpu_is_busy_without_a_sample_of_a_process(node: GpuNode) -> None:
    """Who kept a GPU busy may be hidden or have ended: its own utilisation counts all the same."""
    node.gpus[0].processes([11])
    node.read()
    node.gpus[0].utilization(80)
    found = node.read(5)
    assert found.gpus[0].busy_microseconds == 4 * MICROSECONDS
    assert busy(found) == {ONE: 0}


def test_a_second_reading_of_one_moment_counts_nothing(node: GpuNode) -> None:
    """A repeated reading is complete, for other targets too, and queries no GPU."""
    gpu = node.gpus[0]
    gpu.processes([11])
    gpu.refuse("nvmlDeviceGetTotalEnergyConsumption")
    node.read()
    node.now_ns += SECOND
    gpu.samples([(11, node.stamp, 50)])
    gpu.utilization(50)
    first = node.read()
    gpu.power(90_000)
    assert node.read() == first
    assert node.read(requested=[OTHER]).gpus[0].foreign is True


def test_a_reading_between_two_samples_counts_none_twice(node: GpuNode) -> None:
    """Who reads ten times as often as the driver looks gets the same busy time."""
    gpu = node.gpus[0]
    gpu.processes([11])
    node.read()
    for tenth in range(1, 201):
        node.now_ns += SECOND // 10
        if tenth % 10 == 0:
            gpu.samples([(11, node.stamp, 50)])
        found = node.read()
    assert busy(found) == {ONE: pytest.approx(10 * MICROSECONDS, rel=0.05)}


def test_a_sample_after_a_pause_does_not_cover_the_pause(node: GpuNode) -> None:
    """A process that was idle for ten seconds was not busy in them."""
    gpu = node.gpus[0]
    gpu.processes([11])
    gpu.samples([(11, node.stamp, 100)])
    node.read()
    for _ in range(10):
        node.read(1)
    node.now_ns += SECOND
    gpu.samples([(11, node.stamp, 100)])
    assert busy(node.read()) == {ONE: MICROSECONDS}


def test_without_processes_the_gpus_own_utilisation_counts(node: GpuNode) -> None:
    """If NVML reports no utilisation by process, only the GPU's own is summed up."""
    gpu = node.gpus[0]
    gpu.refuse("nvmlDeviceGetProcessUtilization", NO_PERMISSION)
    gpu.processes([11])
    node.read()
    gpu.utilization(25)
    for _ in range(40):
        found = node.read(1)
    assert found.gpus[0].busy_microseconds == 10 * MICROSECONDS
    assert found.gpus[0].utilization_percent == 25
    assert busy(found) == {ONE: None}
    assert "its utilisation by process: Insufficient Permissions" in reasons(found)


def test_a_gpu_with_mig_instances_is_reported(node: GpuNode) -> None:
    """With MIG, energy is the whole GPU's, busy time is missing, processes are the instances'."""
    gpu = node.gpus[0]
    gpu.cut([[11], [33]])
    gpu.refuse("nvmlDeviceGetComputeRunningProcesses", NO_PERMISSION)
    node.read()
    gpu.energy(5_000_000 + 42_000)
    found = node.read(1)
    (reading,) = found.gpus
    assert reading.mig is True
    assert reading.foreign is True
    assert reading.busy_microseconds is None
    assert busy(found) == {ONE: None}
    assert joules(found) == {"gpu-0": 42.0}
    assert "utilisation" in reasons(found)
    assert "its processes" not in reasons(found)


def test_instances_without_process_lists_are_not_idle(node: GpuNode) -> None:
    """Who else is on a cut GPU is not known where one of its instances does not report."""
    gpu = node.gpus[0]
    gpu.cut([[11], []])
    gpu.refuse("nvmlDeviceGetComputeRunningProcesses", NO_PERMISSION)
    RecordedGpu(gpu.folder / "mig-1", "").refuse("nvmlDeviceGetComputeRunningProcesses")
    found = node.read()
    assert found.gpus[0].foreign is None
    assert "its processes: Insufficient Permissions" in reasons(found)


@pytest.mark.parametrize(
    ("compute", "graphics", "requested", "foreign"),
    [
        ([], [], [ONE], False),
        ([11, 12], [], [ONE], False),
        ([11, 22], [], [ONE], True),
        ([11, 22], [], [ONE, OTHER], False),
        ([11], [33], [ONE], True),
        ([11], [], [], True),
    ],
)
def test_others_on_a_gpu_are_seen(
    node: GpuNode,
    compute: list[int],
    graphics: list[int],
    requested: list[Target],
    *,
    foreign: bool,
) -> None:
    """A process that computes or draws and is of none of the requested targets is a foreign one."""
    node.gpus[0].processes(compute)
    rows = "\n".join(f"{each} 1" for each in graphics)
    node.gpus[0].report("nvmlDeviceGetGraphicsRunningProcesses", rows)
    found = node.read(requested=requested)
    assert found.gpus[0].foreign is foreign
    assert set(found.uses) == {target for each in compute for target in OWNERS[each]} & set(
        requested
    )


def test_in_another_pid_namespace_no_process_is_ruled_out(node: GpuNode) -> None:
    """NVML hides processes there: a stranger that is seen counts, but none seen proves nothing."""
    node.source = Gpus(RecordedNvml(node.root), all_seen=False)
    node.gpus[0].processes([11])
    found = node.read(requested=[ONE])
    assert found.gpus[0].foreign is None
    assert "a pod needs hostPID" in reasons(found)
    node.gpus[0].processes([11, 33])
    assert node.read(1, requested=[ONE]).gpus[0].foreign is True
    node.gpus[0].utilization(50)
    assert node.read(1).gpus[0].busy_microseconds == MICROSECONDS // 2


def test_the_first_pid_namespace_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the number that Linux gives to a node's first PID namespace."""
    place = tmp_path / "pid"
    assert in_first_pid_namespace(place) is False
    place.touch()
    assert in_first_pid_namespace(place) is False
    monkeypatch.setattr(gpu_module, "_FIRST_PID_NAMESPACE", place.stat().st_ino)
    assert in_first_pid_namespace(place) is True


def test_every_gpu_reading_arrives(node: GpuNode) -> None:
    """Memory, power, clock, temperature and what holds the clock down, in base units."""
    mask = SW_POWER_CAP | HW_THERMAL_SLOWDOWN
    node.gpus[0].report("nvmlDeviceGetCurrentClocksEventReasons", hex(mask))
    (reading,) = node.read().gpus
    assert reading.model_dump(by_alias=False, exclude={"uuid"}) == {
        "index": 0,
        "name": "NVIDIA A100-SXM4-40GB",
        "busy_microseconds": 0,
        "foreign": False,
        "mig": False,
        "utilization_percent": 0,
        "memory_used_bytes": 2**30,
        "memory_total_bytes": 40 * 2**30,
        "power_milliwatts": 50_000,
        "clock_hertz": 1_410_000_000,
        "temperature_millidegrees_celsius": 41_000,
        "throttle_reasons": ["SwPowerCap", "HwThermalSlowdown"],
    }


def test_reasons_have_nvmls_names() -> None:
    """Idle and none are no reasons; a bit without a name is reported by its number."""
    assert throttle_reasons(0) == []
    assert throttle_reasons(1) == []
    assert throttle_reasons(0x3 | 1 << 30) == ["ApplicationsClocksSetting", "Bit30"]
    assert {"SwPowerCap", "HwSlowdown", "SyncBoost", "SwThermalSlowdown"} <= set(REASONS.values())


def test_the_harness_knows_every_answer() -> None:
    """A test can set whatever a recorded tree may have of a GPU."""
    assert {"nvmlInit", *get_args(Function)} == set(FUNCTIONS)
