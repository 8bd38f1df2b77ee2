"""CPU time, frequency, temperature and memory of a node are read, or reported as missing."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer_telemetry.cpu_gauges import Gauges, read_gauges
from inferometer_telemetry.kernel_files import UnreadableError
from inferometer_telemetry.node import NodeReader, cpu_ticks
from support.recorded_node import RecordedNode
from support.recorded_pods import write


def test_cpu_time_is_counted_since_the_first_reading(tmp_path: Path) -> None:
    """Busy time of all CPUs excludes idle and stolen time; stolen time is reported separately."""
    recorded = RecordedNode(tmp_path, cpus=8)
    node = NodeReader(recorded.proc_root)
    first = node.read(Gauges()).cpu
    assert first is not None
    assert (first.count, first.busy_microseconds, first.steal_microseconds) == (8, 0, 0)
    recorded.advance(busy_seconds=3.5, steal_seconds=0.25)
    cpu = node.read(Gauges()).cpu
    assert cpu is not None
    assert (cpu.busy_microseconds, cpu.steal_microseconds) == (3_500_000, 250_000)
    assert cpu.memory_available_bytes == 8_192_000 * 1024


def test_each_kind_of_cpu_time_counts_as_what_it_is(tmp_path: Path) -> None:
    """Busy is user, nice, system and both interrupts; idle, iowait and guests' time is not."""
    line = "cpu  1 20 300 4000 50000 600000 7000000 80000000 9 9\ncpu0 0\nintr 1\n"
    (tmp_path / "stat").write_text(line)
    assert cpu_ticks(tmp_path / "stat") == (1, 7_600_321, 80_000_000)


def test_cpu_time_that_decreases_is_reported_and_not_counted(tmp_path: Path) -> None:
    """A count that falls is held where it was, and the sample says so."""
    recorded = RecordedNode(tmp_path)
    node = NodeReader(recorded.proc_root)
    node.read(Gauges())
    recorded.advance(busy_seconds=10)
    node.read(Gauges())
    recorded.advance(busy_seconds=-5)
    found = node.read(Gauges())
    assert found.cpu is not None
    assert found.cpu.busy_microseconds == 10_000_000
    assert [missing.subject for missing in found.missing] == ["cpu"]


@given(content=st.binary(max_size=200))
def test_a_garbled_proc_stat_is_missing(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    """Whatever /proc/stat says, CPU time is a number or a reason."""
    path = tmp_path_factory.mktemp("proc") / "stat"
    path.write_bytes(content)
    with pytest.raises(UnreadableError):
        cpu_ticks(path)


def test_gauges_are_read(tmp_path: Path) -> None:
    """The mean frequency, CPU 0's governor and the package's temperature; not that of a disk."""
    node = RecordedNode(tmp_path, cpus=2)
    node.show(kilohertz=3_000_000, millidegrees=61_000, governor="schedutil")
    write(node.sys_root / "devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "2000000\n")
    assert read_gauges(node.sys_root) == Gauges(2_500_000_000, "schedutil", 61_000, [])


def test_what_a_node_lacks_is_missing_by_name(tmp_path: Path) -> None:
    """A virtual machine without sensors: three reasons, no zero."""
    gauges = read_gauges(tmp_path)
    assert (gauges.frequency_hertz, gauges.governor) == (None, None)
    assert gauges.temperature_millidegrees_celsius is None
    subjects = [missing.subject for missing in gauges.missing]
    assert subjects == ["frequency", "governor", "temperature"]
    assert all("virtual machine" in missing.reason for missing in gauges.missing)


def chip(sys_root: Path, name: str, **sensors: tuple[str, str]) -> None:
    """Write a chip's sensors: label and content of the input."""
    folder = sys_root / "class/hwmon/hwmon1"
    write(folder / "name", f"{name}\n")
    for sensor, (label, content) in sensors.items():
        if label:
            write(folder / f"{sensor}_label", f"{label}\n")
        write(folder / f"{sensor}_input", f"{content}\n")


def test_amd_temperature_is_the_dies_not_the_fan_controls(tmp_path: Path) -> None:
    """Tctl, which may be shifted for the fans' sake, does not count if Tdie exists."""
    chip(tmp_path, "k10temp", temp1=("Tctl", "89000"), temp2=("Tdie", "62000"))
    assert read_gauges(tmp_path).temperature_millidegrees_celsius == 62_000


def test_the_hottest_sensor_counts_where_none_is_of_the_whole(tmp_path: Path) -> None:
    """Of several sensors the hottest; what cannot be a temperature is left out."""
    sensors = {"temp1": ("Core 0", "41000"), "temp2": ("Core 1", "47000")}
    chip(tmp_path, "coretemp", **sensors, temp3=("Core 2", "garbage"), temp4=("", "9999999"))
    assert read_gauges(tmp_path).temperature_millidegrees_celsius == 47_000


def test_frost_is_a_temperature(tmp_path: Path) -> None:
    """A sensor may show less than zero."""
    chip(tmp_path, "coretemp", temp1=("Package id 0", "-4500"))
    assert read_gauges(tmp_path).temperature_millidegrees_celsius == -4500


def test_thermal_zones_stand_in_for_sensors(tmp_path: Path) -> None:
    """Without a CPU sensor chip, the thermal zone is used."""
    for at, (kind, degrees) in enumerate([("acpitz", 90_000), ("x86_pkg_temp", 55_000)]):
        write(tmp_path / f"class/thermal/thermal_zone{at}/type", f"{kind}\n")
        write(tmp_path / f"class/thermal/thermal_zone{at}/temp", f"{degrees}\n")
    assert read_gauges(tmp_path).temperature_millidegrees_celsius == 55_000
