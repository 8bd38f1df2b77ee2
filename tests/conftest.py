"""Settings and reports of every test."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

from support.quiet import INCONCLUSIVE, disturbance, read_counters
from verify import INCONCLUSIVE_VARIABLE

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
    before = read_counters()

    def require() -> None:
        found = disturbance(before, read_counters())
        if found is not None:
            pytest.skip(f"{INCONCLUSIVE}: {found}")

    return require


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List inconclusive tests, and hand them to `make verify`."""
    found = [
        f"{report.nodeid}: {reason}"
        for report in terminalreporter.stats.get("skipped", [])
        if (reason := _reason(report)).startswith(INCONCLUSIVE)
    ]
    if not found:
        return
    terminalreporter.section("inconclusive: the machine was not quiet")
    for line in found:
        terminalreporter.line(line)
    if path := os.environ.get(INCONCLUSIVE_VARIABLE):
        with Path(path).open("a", encoding="utf-8") as notes:
            notes.writelines(f"{line}\n" for line in found)


def _reason(report: pytest.TestReport) -> str:
    """Return why a test was skipped."""
    if not isinstance(report.longrepr, tuple):
        return ""
    return str(report.longrepr[2]).removeprefix("Skipped: ")
