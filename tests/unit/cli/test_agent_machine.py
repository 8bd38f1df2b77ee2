"""The node agent of another machine, or of other processes, is recognised."""

from pathlib import Path

import pytest

from inferometer_api.results.agent_sample import AgentSample, WorkloadReading
from inferometer_cli.local.agent import mismatch

BOOT = "6fdd4dba-2c4c-4c6c-9a8a-3f6a5c2a7f10"


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """Return a machine on which process 50 began at 7050."""
    (tmp_path / "sys/kernel/random").mkdir(parents=True)
    (tmp_path / "sys/kernel/random/boot_id").write_text(f"{BOOT}\n")
    (tmp_path / "50").mkdir()
    begin = " ".join(["S", *["1"] * 18, "7050"])
    (tmp_path / "50/stat").write_text(f"50 (a (b) c) {begin} 1 2\n")
    return tmp_path


def sample(boot_id: str, *targets: tuple[int, int | None]) -> AgentSample:
    """Return a sample with these processes and their start times."""
    return AgentSample(
        agent_version="1",
        instance="i",
        node="n7",
        boot_id=boot_id,
        monotonic_ns=1,
        unix_ns=1,
        workloads=[
            WorkloadReading(process_id=process_id, start_ticks=start_ticks, cpu_microseconds=1)
            for process_id, start_ticks in targets
        ],
    )


@pytest.mark.parametrize(
    ("agent_sample", "why"),
    [
        (sample(BOOT, (50, 7050)), ""),
        (sample(BOOT, (50, None)), ""),
        (sample("", (50, 1)), ""),
        (sample(""), ""),
        (sample(BOOT.replace("6", "7"), (50, 7050)), "it watches another machine (n7)"),
        (sample(BOOT, (50, 7051)), "it has another process 50, or none"),
        (sample(BOOT, (51, 7050)), "it has another process 50, or none"),
        (sample(BOOT), "it has another process 50, or none"),
    ],
)
def test_the_servers_process_is_recognised(proc: Path, agent_sample: AgentSample, why: str) -> None:
    """An agent is refused unless boot id and start time match, or it reports neither."""
    assert mismatch(agent_sample, 50, proc).startswith(why)
    assert bool(mismatch(agent_sample, 50, proc)) == bool(why)


def test_a_process_that_has_ended_does_not_match(proc: Path) -> None:
    """A process that no longer exists here is not the one that the agent reports."""
    assert mismatch(sample(BOOT, (60, 7060)), 60, proc)
