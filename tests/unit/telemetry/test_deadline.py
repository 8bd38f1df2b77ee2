"""A driver that hangs delays only its own figures."""

import threading
from collections.abc import Collection

import pytest

from inferometer_api.results.agent_sample import GpuReading
from inferometer_telemetry.gpu.deadline import DeadlineSource
from inferometer_telemetry.sources import GpuSourceReading, Owners, Target
from support.waiting import DEADLINE_SECONDS, wait_until


class Driver:
    """GPUs that answer once they are let."""

    def __init__(self) -> None:
        self.let = threading.Event()
        self.read_at: list[int] = []
        self.answered = threading.Event()
        self.is_closed = False
        self.fault: Exception | None = None

    def read(self, now_ns: int, requested: Collection[Target], owners: Owners) -> GpuSourceReading:
        """Answer when it may."""
        assert self.let.wait(DEADLINE_SECONDS), "the test did not let the driver answer"
        self.read_at.append(now_ns)
        assert list(owners(1)) == list(requested)
        self.answered.set()
        if self.fault is not None:
            raise self.fault
        return GpuSourceReading(gpus=[GpuReading(uuid="GPU-1", index=0, name=str(now_ns))])

    def close(self) -> None:
        """Remember it."""
        self.is_closed = True


def read(gpus: DeadlineSource, now_ns: int) -> GpuSourceReading:
    """Read without any process."""
    return gpus.read(now_ns, [], lambda _: [])


def test_gpus_answer_as_without_it() -> None:
    """What a source reports or raises arrives, each reading by itself."""
    driver = Driver()
    driver.let.set()
    gpus = DeadlineSource(driver, DEADLINE_SECONDS)
    assert [read(gpus, at).gpus[0].name for at in (1, 2)] == ["1", "2"]
    driver.fault = RuntimeError("an unexpected error of the driver")
    with pytest.raises(RuntimeError, match="unexpected error"):
        read(gpus, 3)
    gpus.close()
    assert driver.is_closed


def test_a_driver_that_hangs_is_missing_until_it_answers() -> None:
    """It is called once and waited for once; a late answer is not returned as a new one."""
    driver = Driver()
    gpus = DeadlineSource(driver, 0.01)
    for at in (1, 2, 3):
        (missing,) = read(gpus, at).missing
        assert (missing.source, missing.subject) == ("nvml", "")
        assert "has not answered within 0.01 s" in missing.reason
    gpus.close()
    assert not driver.is_closed, "a library that hangs is not closed"
    driver.let.set()
    assert driver.answered.wait(DEADLINE_SECONDS), "the late answer did not come"
    assert driver.read_at == [1]


def test_a_driver_that_wakes_goes_on() -> None:
    """After its late answer it is called again."""
    driver = Driver()
    gpus = DeadlineSource(driver, 0.01)
    assert read(gpus, 1).gpus == []
    driver.let.set()
    assert driver.answered.wait(DEADLINE_SECONDS), "the late answer did not come"
    at = 1

    def answers() -> bool:
        nonlocal at
        at += 1
        return [gpu.name for gpu in read(gpus, at).gpus] == [str(at)]

    wait_until(answers, "a new reading of the driver that woke", poll_seconds=0.0)
    assert driver.read_at[0] == 1
