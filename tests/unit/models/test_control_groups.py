"""Memory limits of control groups are found with both versions, in containers and outside."""

from pathlib import Path

import pytest

from inferometer_models.control_groups import cpu_limit, memory_left_bytes

_V1 = "31 23 0:28 / /sys/fs/cgroup/memory rw shared:1 - cgroup cgroup rw,memory\n"
_V1_IN_A_CONTAINER = (
    "31 23 0:28 /docker/c1 /sys/fs/cgroup/memory ro shared:1 - cgroup cgroup rw,memory\n"
)
_V2 = "31 23 0:28 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n"
_HYBRID = _V1 + "32 23 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
_MIB = 1 << 20
_NO_LIMIT_V1 = 9_223_372_036_854_771_712


def _a_machine(root: Path, mounts: str, groups: str) -> None:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/mountinfo").write_text(mounts)
    (root / "proc/self/cgroup").write_text(groups)


def _a_group(folder: Path, version: int, limit: object, used: int, inactive: int = 0) -> None:
    names = {
        1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        2: ("memory.max", "memory.current", "inactive_file"),
    }[version]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / names[0]).write_text(f"{limit}\n")
    (folder / names[1]).write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"inactive_anon 7\n{names[2]} {inactive}\nmapped 1\n")


@pytest.mark.parametrize(
    ("mounts", "groups", "place"),
    [
        (_V1, "4:memory:/load\n0::/\n", "memory/load"),
        (_V1_IN_A_CONTAINER, "4:memory:/docker/c1\n", "memory"),
        (_V1_IN_A_CONTAINER, "4:memory:/\n", "memory"),
        (_HYBRID, "4:memory:/load\n0::/load\n", "memory/load"),
    ],
)
def test_a_limit_of_version_1_is_found(
    tmp_path: Path, mounts: str, groups: str, place: str
) -> None:
    """It is where the process's own group is mounted."""
    _a_machine(tmp_path, mounts, groups)
    _a_group(tmp_path / "sys/fs/cgroup" / place, 1, 300 * _MIB, 100 * _MIB)
    assert memory_left_bytes(tmp_path) == 200 * _MIB


@pytest.mark.parametrize("groups", ["0::/\n", "0::/../../pod\n"])
def test_a_limit_of_version_2_is_found_from_within_a_container(tmp_path: Path, groups: str) -> None:
    """A container's own group is the top of what it sees."""
    _a_machine(tmp_path, _V2, groups)
    _a_group(tmp_path / "sys/fs/cgroup", 2, 300 * _MIB, 100 * _MIB)
    assert memory_left_bytes(tmp_path) == 200 * _MIB


@pytest.mark.parametrize(
    ("version", "mounts", "groups", "top"),
    [(1, _V1, "4:memory:/pod/load\n", "memory"), (2, _V2, "0::/pod/load\n", ".")],
)
def test_the_nearest_limit_counts(
    tmp_path: Path, version: int, mounts: str, groups: str, top: str
) -> None:
    """A pod's limit may be nearer than that of its container, or there may be none."""
    no_limit = {1: _NO_LIMIT_V1, 2: "max"}[version]
    _a_machine(tmp_path, mounts, groups)
    pod = tmp_path / "sys/fs/cgroup" / top / "pod"
    _a_group(pod / "load", version, no_limit, 50 * _MIB)
    _a_group(pod, version, no_limit, 150 * _MIB)
    assert memory_left_bytes(tmp_path) is None
    _a_group(pod / "load", version, 100 * _MIB, 50 * _MIB)
    assert memory_left_bytes(tmp_path) == 50 * _MIB
    _a_group(pod, version, 160 * _MIB, 150 * _MIB)
    assert memory_left_bytes(tmp_path) == 10 * _MIB


@pytest.mark.parametrize(
    ("version", "mounts", "groups", "place"),
    [(1, _V1, "4:memory:/load\n", "memory/load"), (2, _V2, "0::/load\n", "load")],
)
def test_page_cache_that_can_be_dropped_is_not_in_use(
    tmp_path: Path, version: int, mounts: str, groups: str, place: str
) -> None:
    """The files that a process read do not keep it from more memory."""
    _a_machine(tmp_path, mounts, groups)
    _a_group(tmp_path / "sys/fs/cgroup" / place, version, 300 * _MIB, 290 * _MIB, 240 * _MIB)
    assert memory_left_bytes(tmp_path) == 250 * _MIB


def test_a_machine_without_control_groups_has_no_limit(tmp_path: Path) -> None:
    """Nothing is there to read."""
    assert memory_left_bytes(tmp_path) is None


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({"pod/load/cpu.max": "20000 100000", "pod/cpu.max": "max 100000"}, 0.2),
        ({"pod/load/cpu.max": "max 100000", "pod/cpu.max": "150000 100000"}, 1.5),
        ({"pod/load/cpu.max": "max 100000"}, None),
        ({}, None),
    ],
)
def test_a_quota_of_version_2_is_in_cpus(
    tmp_path: Path, files: dict[str, str], limit: float | None
) -> None:
    """The least of the process's own group and those above counts."""
    _a_machine(tmp_path, _V2, "0::/pod/load\n")
    for name, text in files.items():
        file = tmp_path / "sys/fs/cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")
    assert cpu_limit(tmp_path) == limit


@pytest.mark.parametrize(("quota", "limit"), [(20_000, 0.2), (-1, None)])
def test_a_quota_of_version_1_is_in_cpus(tmp_path: Path, quota: int, limit: float | None) -> None:
    """Quota and period are in files of their own."""
    _a_machine(tmp_path, _V1.replace("memory", "cpu"), "1:cpu:/load\n")
    folder = tmp_path / "sys/fs/cgroup/cpu/load"
    folder.mkdir(parents=True)
    (folder / "cpu.cfs_quota_us").write_text(f"{quota}\n")
    (folder / "cpu.cfs_period_us").write_text("100000\n")
    assert cpu_limit(tmp_path) == limit
