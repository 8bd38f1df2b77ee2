"""A sample is complete and makes nothing up, whatever happens to a source."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest

from inferometer_api.results.agent_sample import (
    AgentSample,
    EnergyReading,
    GpuReading,
    GpuUse,
    MissingSource,
    WorkloadReading,
)
from inferometer_telemetry.sampler import FLOOR_NS, Clocks, Places, Sampler
from inferometer_telemetry.sources import GpuSourceReading, Target
from inferometer_telemetry.targets import KNOWN_NS, MOST_KNOWN
from support.recorded_node import RANGE_MICROJOULES, RecordedNode
from support.recorded_pods import write

UID = "0f9c2a6e-1f4b-4b7e-9a55-3d1c8e2b7a10"
OTHER = "1f9c2a6e-1f4b-4b7e-9a55-3d1c8e2b7a11"
SECOND = 10**9


@dataclass(slots=True)
class Time:
    """Clocks that a test sets."""

    now_ns: int = 5 * SECOND
    drawn: "count[int]" = field(default_factory=count)

    @property
    def clocks(self) -> Clocks:
        """Return the clocks that an agent reads."""
        return Clocks(lambda: self.now_ns, lambda: 10**18, lambda: f"instance-{next(self.drawn)}")


@dataclass(slots=True)
class OneGpu:
    """A GPU that process 700 uses."""

    found: Collection[Target] = ()
    is_closed: bool = False

    def read(
        self,
        now_ns: int,
        requested: Collection[Target],
        owners: Callable[[int], Collection[Target]],
    ) -> GpuSourceReading:
        """Return what it reports."""
        self.found = owners(700)
        energy = EnergyReading(
            domain="gpu-0",
            kind="Gpu",
            method="Counter",
            microjoules=now_ns // 1000,
            gpu_uuid="GPU-1",
        )
        return GpuSourceReading(
            [energy],
            [GpuReading(uuid="GPU-1", index=0, name="T4", power_milliwatts=70_000)],
            {target: [GpuUse(gpu_uuid="GPU-1")] for target in self.found if target in requested},
            [MissingSource(source="nvml", subject="GPU-1", reason="it reports no clock")],
        )

    def close(self) -> None:
        """Remember it."""
        self.is_closed = True


def a_sampler(node: RecordedNode, time: Time, gpus: OneGpu | None = None) -> Sampler:
    """Return a sampler of a recorded node."""
    places = Places(node.sys_root, node.sys_root, node.proc_root, node.cgroup_root)
    return Sampler(places, gpus, node="n1", version="9", clocks=time.clocks)


def energy(sample: AgentSample) -> dict[str, float]:
    """Return the joules of each domain."""
    return {reading.domain: reading.microjoules / 1e6 for reading in sample.energy}


def seen(sampler: Sampler) -> list[WorkloadReading]:
    """Return the targets that Prometheus sees."""
    sampler.tick(sampler.look())
    latest = sampler.scrape()
    assert latest is not None
    return latest.sample.workloads


def test_a_sample_has_all_readings(tmp_path: Path) -> None:
    """Energy, CPU, GPUs and the requested pod of one moment, with what is missing."""
    node, time, gpu = RecordedNode(tmp_path), Time(), OneGpu()
    node.add_pod(UID)
    node.add_process(700, pod_uid=UID)
    sampler = a_sampler(node, time, gpu)
    sampler.tick(sampler.look())
    sampler.sample([Target(UID)])
    node.advance(joules={"package-0": 30, "package-0-dram": 5}, busy_seconds=2, pods={UID: 1.5})
    time.now_ns += SECOND
    sample = sampler.sample([Target(UID)])
    assert (sample.node, sample.agent_version, sample.instance) == ("n1", "9", "instance-0")
    assert (sample.monotonic_ns, sample.unix_ns) == (6 * SECOND, 10**18)
    assert energy(sample) == {"package-0": 30.0, "package-0-dram": 5.0, "gpu-0": 6.0}
    assert sample.cpu is not None
    assert sample.cpu.busy_microseconds == 2_000_000
    assert sample.cpu.frequency_hertz == 2_400_000_000
    (target,) = sample.workloads
    assert (target.pod_uid, target.process_id) == (UID, None)
    assert target.cpu_microseconds == 1_500_000
    assert target.gpus == [GpuUse(gpu_uuid="GPU-1")]
    assert [missing.subject for missing in sample.missing] == ["GPU-1"]
    assert AgentSample.model_validate_json(sample.model_dump_json(exclude_none=True)) == sample


def test_a_process_owns_what_its_children_do(tmp_path: Path) -> None:
    """A GPU's process that is a child of the requested process is the target's."""
    node, gpu = RecordedNode(tmp_path), OneGpu()
    node.add_process(699)
    node.add_process(700, parent=699)
    a_sampler(node, Time(), gpu).sample([Target(process_id=699)])
    assert gpu.found == [Target(process_id=699)]


def test_only_known_targets_own_processes(tmp_path: Path) -> None:
    """A process of a pod that no client requested belongs to no target."""
    node, gpu = RecordedNode(tmp_path), OneGpu()
    node.add_pod(UID)
    node.add_pod(OTHER)
    node.add_process(700, pod_uid=OTHER)
    sampler = a_sampler(node, Time(), gpu)
    sampler.sample([Target(UID)])
    assert gpu.found == []
    sampler.sample([Target(UID), Target(OTHER)])
    assert gpu.found == [Target(OTHER)]


def test_power_is_the_mean_between_regular_samples(tmp_path: Path) -> None:
    """Watts come from the last two regular samples, not from clients'; a GPU reports its own."""
    node, time, gpu = RecordedNode(tmp_path), Time(), OneGpu()
    sampler = a_sampler(node, time, gpu)
    assert sampler.tick(sampler.look()).watts == {"gpu-0": 70.0}
    node.advance(joules={"package-0": 40})
    time.now_ns += SECOND
    sampler.sample([])
    node.advance(joules={"package-0": 20})
    time.now_ns += SECOND
    latest = sampler.tick(sampler.look())
    assert latest.watts == {"package-0": 30.0, "package-0-dram": 0.0, "gpu-0": 70.0}
    assert (latest.samples, latest.available["rapl"]) == (3, True)


def test_an_unknown_pod_is_missing_by_name(tmp_path: Path) -> None:
    """A pod that is not on this node has no reading, and the reason says so."""
    sample = a_sampler(RecordedNode(tmp_path), Time()).sample([Target(UID)])
    assert sample.workloads == []
    (missing,) = [each for each in sample.missing if each.subject == UID]
    assert missing.source == "cgroup"
    assert "it has ended, or runs on another node" in missing.reason


def test_a_pod_that_vanishes_is_missing_from_then_on(tmp_path: Path) -> None:
    """A pod that ends between two samples is no crash and no zero."""
    node, time = RecordedNode(tmp_path), Time()
    node.add_pod(UID)
    sampler = a_sampler(node, time)
    assert len(sampler.sample([Target(UID)]).workloads) == 1
    node.remove_pod(UID)
    assert sampler.sample([Target(UID)]).workloads == []
    assert seen(sampler) == []


def test_a_count_that_decreases_is_held_and_reported(tmp_path: Path) -> None:
    """A pod's CPU time never falls, and the sample in which it would says so."""
    node = RecordedNode(tmp_path)
    node.add_pod(UID)
    node.advance(pods={UID: 10})
    sampler = a_sampler(node, Time())
    sampler.sample([Target(UID)])
    node.advance(pods={UID: -4})
    sample = sampler.sample([Target(UID)])
    assert sample.workloads[0].cpu_microseconds == 10_000_000
    assert "went back" in next(each.reason for each in sample.missing if each.subject == UID)


def test_a_child_that_is_missed_once_is_counted_once(tmp_path: Path) -> None:
    """A process tree's CPU time that dips between two readings is right again at the next."""
    node = RecordedNode(tmp_path)
    node.add_process(50)
    node.add_process(51, parent=50)
    node.advance(processes={50: 6, 51: 4})
    sampler = a_sampler(node, Time())
    requested = [Target(process_id=50)]
    sampler.sample(requested)
    children = node.proc_root / "50/task/50/children"
    children.write_text("")
    held = sampler.sample(requested)
    children.write_text("51 ")
    cpu_microseconds = [
        sample.workloads[0].cpu_microseconds for sample in (held, sampler.sample(requested))
    ]
    assert cpu_microseconds == [10_000_000, 10_000_000]
    assert "went back" in next(each.reason for each in held.missing if each.subject == "process:50")


def test_a_request_too_soon_gets_the_previous_reading(tmp_path: Path) -> None:
    """No energy counter is read more than once in 50 ms for askers; the time is the reading's."""
    node, time = RecordedNode(tmp_path), Time()
    sampler = a_sampler(node, time)
    first = sampler.sample([])
    node.advance(joules={"package-0": 30}, busy_seconds=3)
    time.now_ns += FLOOR_NS - 1
    again = sampler.sample([Target(UID)])
    assert (again.energy, again.cpu, again.monotonic_ns) == (
        first.energy,
        first.cpu,
        first.monotonic_ns,
    )
    assert UID in {each.subject for each in again.missing}
    time.now_ns += 1
    after = sampler.sample([])
    assert (energy(after)["package-0"], after.monotonic_ns) == (30.0, time.now_ns)


def test_a_regular_sample_makes_no_edge_early(tmp_path: Path) -> None:
    """A request just after a regular sample gets that reading; time never goes back."""
    node, time = RecordedNode(tmp_path), Time()
    sampler = a_sampler(node, time)
    sampler.tick(sampler.look())
    time.now_ns += 1_000_000
    assert sampler.sample([]).monotonic_ns == time.now_ns
    time.now_ns += 1_000_000
    tick = sampler.tick(sampler.look()).sample
    assert tick.monotonic_ns == time.now_ns
    assert sampler.sample([]).monotonic_ns == tick.monotonic_ns


def test_a_sample_identifies_its_machine_and_process(tmp_path: Path) -> None:
    """The kernel's boot ID, and when a process began; a recorded machine may have none."""
    node = RecordedNode(tmp_path)
    node.add_process(50)
    requested = [Target(process_id=50)]
    assert a_sampler(node, Time()).sample(requested).boot_id == ""
    write(node.proc_root / "sys/kernel/random/boot_id", f"{OTHER}\n")
    sample = a_sampler(node, Time()).sample(requested)
    assert (sample.boot_id, sample.workloads[0].start_ticks) == (OTHER, 7050)


def test_another_process_of_the_same_number_is_not_the_target(tmp_path: Path) -> None:
    """A process ID that was given anew is missing, with the reason."""
    node = RecordedNode(tmp_path)
    node.add_process(50)
    sampler = a_sampler(node, Time())
    sampler.sample([Target(process_id=50)])
    path = node.proc_root / "50/stat"
    write(path, path.read_text().replace(" 7050 ", " 99999 "))
    sample = sampler.sample([Target(process_id=50)])
    assert sample.workloads == []
    (reason,) = [each.reason for each in sample.missing if each.subject == "process:50"]
    assert "another one has its number now" in reason


def test_a_new_beginning_of_a_counter_is_a_new_instance(tmp_path: Path) -> None:
    """When a package's counter began anew, clients see that totals are not comparable."""
    node, time = RecordedNode(tmp_path, begin_joules=90_000), Time()
    sampler = a_sampler(node, time)
    before = sampler.tick(sampler.look()).sample
    write(node.powercap("intel-rapl:0") / "energy_uj", "3\n")
    time.now_ns += SECOND
    latest = sampler.tick(sampler.look())
    assert (before.instance, latest.sample.instance) == ("instance-0", "instance-1")
    assert latest.watts == {}


def test_a_wrap_around_is_the_same_instance(tmp_path: Path) -> None:
    """A counter that wraps goes on within the instance."""
    node, time = RecordedNode(tmp_path, begin_joules=RANGE_MICROJOULES / 1e6 - 5), Time()
    sampler = a_sampler(node, time)
    sampler.sample([])
    node.advance(joules={"package-0": 100})
    time.now_ns += SECOND
    sample = sampler.sample([])
    assert sample.instance == "instance-0"
    assert energy(sample)["package-0"] == 100.0


def test_a_target_is_known_for_five_minutes(tmp_path: Path) -> None:
    """Prometheus sees a target until five minutes without a request; later it continues."""
    node, time = RecordedNode(tmp_path), Time()
    node.add_pod(UID)
    node.advance(pods={UID: 10})
    sampler = a_sampler(node, time)
    sampler.sample([Target(UID)])
    time.now_ns += KNOWN_NS
    node.advance(pods={UID: 0.5})
    (target,) = seen(sampler)
    assert target.cpu_microseconds == 10_500_000
    time.now_ns += 1
    assert seen(sampler) == []
    node.advance(pods={UID: 1})
    assert sampler.sample([Target(UID)]).workloads[0].cpu_microseconds == 11_500_000


def test_no_more_than_256_targets_are_known(tmp_path: Path) -> None:
    """The one that was requested the longest ago is forgotten first."""
    node, time = RecordedNode(tmp_path), Time()
    for process_id in range(100, 100 + MOST_KNOWN + 1):
        node.add_process(process_id)
    sampler = a_sampler(node, time)
    for process_id in [*range(100, 100 + MOST_KNOWN), 100, 100 + MOST_KNOWN]:
        sampler.sample([Target(process_id=process_id)])
    known = {target.process_id for target in seen(sampler)}
    assert known == {100, *range(102, 101 + MOST_KNOWN)}


def test_a_disabled_source_is_reported_as_disabled(tmp_path: Path) -> None:
    """A source that is switched off gives only the reason; processes are still reported."""
    node = RecordedNode(tmp_path)
    node.add_pod(UID)
    node.add_process(5)
    places = Places(sys=None, rapl=None, proc=node.proc_root, cgroup=None)
    sampler = Sampler(places, None, node="n", version="1", clocks=Time().clocks)
    sample = sampler.sample([Target(UID), Target(process_id=5)])
    assert (sample.energy, sample.cpu, sample.gpus) == ([], None, [])
    assert [target.process_id for target in sample.workloads] == [5]
    off = {each.source: each.reason for each in sample.missing if not each.subject}
    assert off == {
        name: f"it is switched off (--no-{name})" for name in ("rapl", "nvml", "cgroup", "node")
    }
    assert not any(sampler.tick(sampler.look()).available.values())


def test_a_failed_sample_leaves_no_stale_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When a regular sample fails, the one before it is not shown as a new one."""
    gpu = OneGpu()
    sampler = a_sampler(RecordedNode(tmp_path), Time(), gpu)
    sampler.tick(sampler.look())

    def fail(*_: object) -> GpuSourceReading:
        raise RuntimeError("an unexpected error of the driver")

    monkeypatch.setattr(OneGpu, "read", fail)
    with pytest.raises(RuntimeError):
        sampler.tick(sampler.look())
    assert sampler.latest is None
    assert sampler.scrape() is None


def test_sources_are_let_go(tmp_path: Path) -> None:
    """The library of the GPUs is closed with the agent."""
    gpu = OneGpu()
    a_sampler(RecordedNode(tmp_path), Time(), gpu).close()
    assert gpu.is_closed
