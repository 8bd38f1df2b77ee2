"""Warnings before a run: a busy machine, and other measurements on it."""

from pathlib import Path
from typing import Any

import pytest

from inferometer_api.results.result import OtherLoad, ProcessLoad, ResultDocument
from inferometer_cli.exits import StopSignal
from inferometer_cli.local import measurement
from inferometer_cli.local.machine_check import busy, other_runs
from inferometer_cli.progress import Warn
from support.results import a_result


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (("/venv/bin/python3", "/venv/bin/inferometer", "run", "/x/big.yaml"), "run big.yaml"),
        (("python3", "-m", "inferometer_cli", "ab", "a.yaml"), "ab a.yaml"),
        (("kubectl-inferometer", "run", "-"), "run -"),
    ],
)
def test_another_measurement_is_named(command: tuple[str, ...], name: str) -> None:
    """The warning has the other command, without its folders, and its process."""
    (warning,) = other_runs({7: 1}, {7: command})
    assert warning.startswith(
        f"Another measurement is under way on this machine: inferometer {name} (process 7)."
    )


@pytest.mark.parametrize(
    "command",
    [
        ("/venv/bin/inferometer", "report", "run"),
        ("python3", "-m", "inferometer_serving"),
        ("python3", "inferometer.py"),
        (),
    ],
)
def test_other_commands_are_no_measurements(command: tuple[str, ...]) -> None:
    """Reports, servers and scripts with a similar name do not measure."""
    assert list(other_runs({7: 1}, {7: command})) == []


def test_a_measurement_is_named_once() -> None:
    """Of a command and its load generator only the command is named; each measurement once."""
    run = ("/venv/bin/inferometer", "run", "a.yaml")
    load = ("python3", "-m", "inferometer_loadgen")
    found = list(other_runs({7: 1, 8: 7, 9: 8, 20: 1}, {7: run, 9: load, 20: load}))
    assert [warning.partition("machine: ")[2].partition(".")[0] for warning in found] == [
        "inferometer run a",
        "a load generator (process 20)",
    ]


def test_a_busy_machine_is_reported_with_names() -> None:
    """Above 10 % of the CPUs, and half a core, the largest processes are named."""
    builds = ProcessLoad(name="cc1plus", processes=3, cpu_cores=1.0)
    load = OtherLoad(cpu_count=2, busy_cores=1.2, other_cores=1.1, processes=[builds])
    (warning,) = busy(load)
    assert warning.startswith(
        "This machine is busy: other processes use 1.1 of its 2 CPUs (cc1plus 1.0). Stop them"
    )
    assert list(busy(load.model_copy(update={"other_cores": 0.5}))) == []
    assert list(busy(load.model_copy(update={"cpu_count": 64, "other_cores": 6.4}))) == []


@pytest.mark.parametrize(("is_series", "count"), [(True, 2), (False, 4)])
def test_a_series_warns_once_of_each_fault(
    monkeypatch: pytest.MonkeyPatch, *, is_series: bool, count: int
) -> None:
    """The figures of a busy machine differ from run to run, and the fault is the same."""
    document = a_result()
    cores = iter((1.1, 1.3))

    async def run(*_: Any, watch: Any, **__: Any) -> ResultDocument:
        watch(Warn(f"This machine is busy: other processes use {next(cores)} of its 2 CPUs."))
        watch(Warn("Another measurement is under way on this machine: inferometer run."))
        return document

    monkeypatch.setattr(measurement, "run_locally", run)
    heard: list[object] = []
    warned: set[str] | None = set() if is_series else None
    for _ in range(2):
        measurement.measure(document.run, Path(), StopSignal(), watch=heard.append, warned=warned)
    assert len(heard) == count
