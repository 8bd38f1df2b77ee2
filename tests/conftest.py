"""Settings and reports of every test."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

from support.gate_scheduling import GateScheduling
from support.outcomes import OUTCOMES_VARIABLE, OutcomeRecorder, inconclusive_reason
from support.quiet import INCONCLUSIVE, disturbance, read_counters

# A deadline for each example, or for making them, would be a limit on how busy the machine may be.
settings.register_profile(
    "patient",
    settings.default,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
# For `make mutants`: only whether a test fails matters, not the smallest example.
settings.register_profile(
    "mutants",
    settings.get_profile("patient"),
    phases=(Phase.explicit, Phase.generate),
)
settings.load_profile("patient")


@pytest.fixture
def require_quiet() -> Callable[[], None]:
    """Return a function that ends the test as inconclusive if the machine was not quiet until now.

    A test calls it after its lower bounds, which hold on any machine, and before its upper ones.
    """
    return _require_quiet_since_now()


@pytest.fixture(scope="module")
def require_quiet_module() -> Callable[[], None]:
    """Return such a function for what the fixtures of a module measure, which request this one."""
    return _require_quiet_since_now()


def _require_quiet_since_now() -> Callable[[], None]:
    before = read_counters()

    def require() -> None:
        found = disturbance(before, read_counters())
        if found is not None:
            pytest.skip(f"{INCONCLUSIVE}: {found}")

    return require


@pytest.fixture(autouse=True, scope="session")
def _own_data_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the tests' results out of the user's database."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        patch.delenv("INFEROMETER_DATABASE", raising=False)
        yield


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return two workers for each core: the tests of the gate wait for about half of their time.

    Each worker has an API server of its own, so that more than eight would cost more than they do.
    """
    return min(2 * (os.cpu_count() or 1), 8)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> GateScheduling | None:
    """Give `--dist loadscope` the scopes of the gate."""
    is_of_gate = config.getvalue("dist") == "loadscope"
    return GateScheduling(config, log) if is_of_gate else None


def pytest_configure(config: pytest.Config) -> None:
    """Record the outcomes for `make verify`."""
    if path := os.environ.get(OUTCOMES_VARIABLE):
        config.pluginmanager.register(OutcomeRecorder(Path(path)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List inconclusive tests."""
    found = [
        f"{report.nodeid}: {reason}"
        for report in terminalreporter.stats.get("skipped", [])
        if (reason := inconclusive_reason(report))
    ]
    if found:
        terminalreporter.section("inconclusive: the machine was not quiet")
        for line in found:
            terminalreporter.line(line)
