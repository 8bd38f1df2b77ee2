"""A real agent reads GPUs through the driver's library as it reads a recording of them.

The library is a stub in C with NVIDIA's published symbols and structures, so that pynvml's calls,
versions and structures are those of a machine with GPUs.
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from inferometer_api.results.agent_sample import AgentSample
from inferometer_telemetry.gpu.source import in_first_pid_namespace
from support.agent_process import AgentProcess, agent
from support.recorded_gpus import (
    DRIVER_NOT_LOADED,
    GPU_IS_LOST,
    HW_THERMAL_SLOWDOWN,
    NO_PERMISSION,
    SW_POWER_CAP,
    RecordedGpu,
)
from support.requirements import cannot_run

SOURCE = Path(__file__).parents[1] / "support" / "nvml_stub.c"
OURS, STRANGER = os.getpid(), 2**22 + 1
"""The second one is above any process ID that Linux gives."""
QUIET = ("--interval-seconds", "60", "--no-rapl", "--no-cgroup", "--no-node")
"""An agent that reads when it is requested, and nothing but GPUs."""
STAMP = 1_700_000_000_000_000


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the stub, and return the folder that it is in."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        cannot_run("the stub of NVIDIA's library is compiled, and there is no C compiler here")
    folder = tmp_path_factory.mktemp("library")
    words = (compiler, "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC")
    subprocess.run([*words, "-o", folder / "libnvidia-ml.so.1", SOURCE], check=True)
    return folder


@pytest.fixture
def tree(tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let processes that are started find the stub, and return the tree that it answers from."""
    root = tmp_path / "nvml"
    root.mkdir()
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library))
    monkeypatch.setenv("NVML_STUB_TREE", str(root))
    return root


@pytest.fixture
def gpus(tree: Path) -> list[RecordedGpu]:
    """Make a GPU that reports all, one without a counter, one in two instances, one that is shy."""
    gpus = [RecordedGpu.make(tree, at) for at in range(4)]
    whole, summed, cut, shy = gpus
    whole.report("nvmlDeviceGetCurrentClocksEventReasons", SW_POWER_CAP | HW_THERMAL_SLOWDOWN)
    whole.processes([OURS, STRANGER])
    whole.report("nvmlDeviceGetGraphicsRunningProcesses", f"{STRANGER} 1")
    whole.samples([(OURS, STAMP, 10), (STRANGER, STAMP, 5)])
    summed.refuse("nvmlDeviceGetTotalEnergyConsumption")
    summed.power(100_000)
    summed.processes([OURS])
    cut.cut([[OURS], [STRANGER]])
    cut.refuse("nvmlDeviceGetComputeRunningProcesses", NO_PERMISSION)
    shy.refuse("nvmlDeviceGetMemoryInfo", NO_PERMISSION)
    shy.refuse("nvmlDeviceGetTemperature")
    return gpus


@pytest.fixture
def through_the_library(tmp_path: Path, gpus: list[RecordedGpu]) -> Iterator[AgentProcess]:
    """Start an agent that finds the stub as it finds NVIDIA's library."""
    with agent(tmp_path, *QUIET) as process:
        yield process


def about_gpus(sample: AgentSample) -> dict[str, object]:
    """Return the GPU figures of a sample without integrated power, which depends on the clock."""
    document = sample.model_dump(by_alias=False)
    for each in document["energy"]:
        if each["method"] == "PowerIntegral":
            del each["microjoules"]
    for each in document["gpus"]:
        # What an agent outside of the first PID namespace cannot know.
        each["foreign"] = each["foreign"] or None
        del each["busy_microseconds"]
    return {
        "energy": document["energy"],
        "gpus": document["gpus"],
        "uses": [each["gpus"] for each in document["workloads"]],
        "missing": [
            each
            for each in document["missing"]
            if each["source"] == "nvml" and "hostPID" not in each["reason"]
        ],
    }


def test_library_and_recording_are_one(
    tmp_path: Path, tree: Path, gpus: list[RecordedGpu], through_the_library: AgentProcess
) -> None:
    """Whatever GPUs report, or refuse, arrives alike through pynvml's calls and from the tree."""
    (tmp_path / "recorded").mkdir()
    with agent(tmp_path / "recorded", *QUIET, "--nvml-root", str(tree)) as recorded:
        first = [one.sample(processes=[OURS]) for one in (recorded, through_the_library)]
        for gpu in gpus:
            gpu.energy(5_000_000 + 321_000)
        rows = [(OURS, STAMP + 1_000_000, 60), (STRANGER, STAMP + 900_000, 20)]
        gpus[0].samples(rows)
        gpus[1].refuse("nvmlDeviceGetTotalEnergyConsumption")
        second = [one.sample(processes=[OURS]) for one in (recorded, through_the_library)]
    for by_recording, by_library in (first, second):
        assert about_gpus(by_library) == about_gpus(by_recording)
    node_sample = second[1]
    assert [each.mig for each in node_sample.gpus] == [False, False, True, False]
    assert [each.gpu_uuid for each in node_sample.energy] == [gpu.uuid for gpu in gpus]
    grown = {
        each.domain: each.microjoules for each in node_sample.energy if each.method == "Counter"
    }
    assert grown == {"gpu-0": 321_000_000, "gpu-2": 321_000_000, "gpu-3": 321_000_000}
    uses = {each.gpu_uuid: each.busy_microseconds for each in node_sample.workloads[0].gpus}
    assert uses == {gpus[0].uuid: 600_000, gpus[1].uuid: 0, gpus[2].uuid: None}
    assert node_sample.gpus[0].throttle_reasons == ["SwPowerCap", "HwThermalSlowdown"]
    reasons = {(each.subject, each.reason) for each in node_sample.missing}
    assert (gpus[3].uuid, "NVML does not report its temperature: Not Supported") in reasons
    assert (gpus[3].uuid, "NVML does not report its memory: Insufficient Permissions") in reasons


def test_summed_power_is_power_times_time(
    through_the_library: AgentProcess, require_quiet: Callable[[], None]
) -> None:
    """Between two samples 100 W give 100 J for each second of the agent's own clock, to 1 %."""
    before, after = (through_the_library.sample() for _ in range(2))
    for _ in range(20):
        after = through_the_library.sample()
    joules = [
        next(each.microjoules for each in sample.energy if each.domain == "gpu-1") / 1e6
        for sample in (before, after)
    ]
    seconds = (after.monotonic_ns - before.monotonic_ns) / 1e9
    require_quiet()
    assert joules[1] - joules[0] == pytest.approx(100 * seconds, rel=0.01)


def test_who_is_on_a_gpu_is_known_in_the_first_pid_namespace_alone(
    gpus: list[RecordedGpu], through_the_library: AgentProcess
) -> None:
    """A foreign process is reported from anywhere; its absence only from there."""
    node_sample = through_the_library.sample(processes=[OURS])
    alone = False if in_first_pid_namespace() else None
    assert [each.foreign for each in node_sample.gpus] == [True, alone, True, alone]


def test_a_gpu_that_falls_off_the_bus_leaves_the_others(
    gpus: list[RecordedGpu], through_the_library: AgentProcess
) -> None:
    """The lost one is missing by its UUID, the other three are reported as before."""
    through_the_library.sample()
    gpus[0].refuse("nvmlDeviceGetPowerUsage", GPU_IS_LOST)
    node_sample = through_the_library.sample()
    assert [each.index for each in node_sample.gpus] == [1, 2, 3]
    lost = next(each for each in node_sample.missing if each.subject == gpus[0].uuid)
    assert lost.reason == "the GPU does not answer: GPU is lost"


def test_a_library_without_a_driver_is_reported(tmp_path: Path, tree: Path) -> None:
    """The library is there and the kernel module is not: the agent serves on and says so."""
    (tree / "nvmlInit").write_text(f"error {DRIVER_NOT_LOADED}")
    with agent(tmp_path, *QUIET) as process:
        missing = [each for each in process.sample().missing if each.source == "nvml"]
        assert [each.reason for each in missing] == ["NVIDIA's driver is not loaded"]
        assert process.ended() == 0
