"""Throttling, waiting, steal and clock jumps are seen on every machine that reports them."""

from pathlib import Path

import pytest

from inferometer_api.results.result import ClientHealth
from inferometer_loadgen.client.watch import ClientWatch, worst

V1 = "31 23 0:28 / /sys/fs/cgroup/cpu rw shared:1 - cgroup cgroup rw,cpu\n"
V1_IN_A_CONTAINER = "31 23 0:28 /kubepods/pod1/c1 /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n"
V2 = "31 23 0:28 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n"
HYBRID = V1 + "32 23 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"


def a_machine(root: Path, mounts: str, group: str, **limits: str) -> None:
    """Write the files of a machine; `limits` are `cpu.stat`s by their folder, dots for slashes."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/mountinfo").write_text(mounts)
    (root / "proc/self/cgroup").write_text(group)
    for place, text in limits.items():
        folder = root / "sys/fs/cgroup" / place.replace("__", "/")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cpu.stat").write_text(text)


def throttled_by(root: Path, **limits: str) -> float | None:
    """Return the facts of a watch after the `cpu.stat`s changed to these."""
    watch = ClientWatch(root)
    for place, text in limits.items():
        (root / "sys/fs/cgroup" / place.replace("__", "/") / "cpu.stat").write_text(text)
    return watch.facts().throttled_seconds


@pytest.mark.parametrize(
    ("mounts", "group", "place"),
    [
        (V1, "1:cpu:/load\n0::/\n", "cpu__load"),
        (V1.replace("rw,cpu", "rw,cpu,cpuacct"), "3:cpu,cpuacct:/load\n", "cpu__load"),
        (V1_IN_A_CONTAINER, "1:cpu:/kubepods/pod1/c1\n", "cpu"),
        (V1_IN_A_CONTAINER, "1:cpu:/\n", "cpu"),
        (HYBRID, "1:cpu:/load\n0::/load\n", "cpu__load"),
    ],
)
def test_a_limit_of_version_1_is_seen(tmp_path: Path, mounts: str, group: str, place: str) -> None:
    """Nanoseconds of throttling are read where the process' own group is mounted."""
    a_machine(tmp_path, mounts, group, **{place: "nr_throttled 1\nthrottled_time 1000000000\n"})
    after = {place: "nr_throttled 4\nthrottled_time 3500000000\n"}
    assert throttled_by(tmp_path, **after) == 2.5


@pytest.mark.parametrize("group", ["0::/\n", "0::/../../pod\n"])
def test_a_limit_of_version_2_is_seen_from_within_a_container(tmp_path: Path, group: str) -> None:
    """A container's own group is the top of what it sees; there throttling is in microseconds."""
    a_machine(tmp_path, V2, group, **{".": "usage_usec 9\nthrottled_usec 0\n"})
    assert throttled_by(tmp_path, **{".": "usage_usec 9\nthrottled_usec 250000\n"}) == 0.25


def test_limits_above_the_own_group_count_too(tmp_path: Path) -> None:
    """A pod's limit is in none of its containers' files."""
    a_machine(
        tmp_path,
        V2,
        "0::/pod/load\n",
        pod="throttled_usec 0\n",
        pod__load="throttled_usec 0\n",
    )
    after = {"pod": "throttled_usec 200000\n", "pod__load": "throttled_usec 100000\n"}
    assert throttled_by(tmp_path, **after) == pytest.approx(0.3)


def test_a_machine_without_gauges_is_no_fault(tmp_path: Path) -> None:
    """A figure that no file contains is absent, never zero."""
    facts = ClientWatch(tmp_path).facts()
    assert facts.throttled_seconds is None
    assert facts.runnable_wait_seconds is None
    assert facts.steal_seconds is None


def test_waiting_and_steal_are_counted_from_the_start(tmp_path: Path) -> None:
    """The second number of schedstat is nanoseconds of waiting; steal is in ticks, by CPU."""
    a_machine(tmp_path, V2, "0::/\n")
    (tmp_path / "proc/thread-self").mkdir()
    schedstat = tmp_path / "proc/thread-self/schedstat"
    schedstat.write_text("5 1000000000 7\n")
    stat = tmp_path / "proc/stat"
    cpus = [f"cpu{number} 1 1 1 1 1 1 1 {{}} 0 0" for number in range(1024)]
    stat.write_text("\n".join(["cpu 1 1 1 1 1 1 1 999 0 0", cpus[0].format(100), "intr 1"]))
    watch = ClientWatch(tmp_path)
    schedstat.write_text("6 4500000000 9\n")
    stat.write_text("\n".join(["cpu 1 1 1 1 1 1 1 9999 0 0", cpus[0].format(350), "intr 1"]))
    facts = watch.facts()
    assert facts.runnable_wait_seconds == 3.5
    assert facts.steal_seconds in {2.5, None}  # None if this process may not use CPU 0
    watch.begin()
    assert watch.facts().runnable_wait_seconds == 0


def test_a_clock_that_is_set_is_seen_and_its_course_is_not(tmp_path: Path) -> None:
    """The largest step between wall and steady clock is reported with its sign; both advance."""
    wall, steady = [10**18], [10**9]
    watch = ClientWatch(tmp_path, lambda: wall[0], lambda: steady[0])
    for step in (0, 3_000_000, -8_000_000, 5_000_000):
        wall[0] += 10**9 + step
        steady[0] += 10**9
        watch.second()
    assert watch.facts().clock_jump_nanoseconds == -8_000_000


def test_a_clock_that_was_read_late_is_read_again(tmp_path: Path) -> None:
    """A process that is interrupted between its two clocks does not take that for a jump."""
    late = 10**8
    steady = iter([0, late, late, late + 10, 2 * late, 2 * late + 10])
    wall = iter([late, late, 2 * late])  # interrupted for 100 ms before it was first read
    watch = ClientWatch(tmp_path, lambda: next(wall), lambda: next(steady))
    assert watch.facts().clock_jump_nanoseconds == 0


def test_the_worst_of_several_workers_is_reported() -> None:
    """One starved worker is not hidden by others that were not."""
    facts = worst(
        [
            ClientHealth(runnable_wait_seconds=2.0, steal_seconds=1.0, cpu_count=2),
            ClientHealth(
                throttled_seconds=1.0, clock_jump_nanoseconds=-4, wake_up_lag_max_nanoseconds=9
            ),
            ClientHealth(steal_seconds=2.0, cpu_count=64, clock_jump_nanoseconds=3),
        ]
    )
    assert facts == ClientHealth(
        throttled_seconds=1.0,
        runnable_wait_seconds=2.0,
        steal_seconds=1.0,
        cpu_count=2,
        wake_up_lag_max_nanoseconds=9,
        clock_jump_nanoseconds=-4,
    )
