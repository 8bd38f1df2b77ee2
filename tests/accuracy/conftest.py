"""Fixtures of tests on the real clock: their figures, and whether the machine was quiet."""

from collections.abc import Callable

import pytest

from support.quiet import INCONCLUSIVE, disturbance, read_counters

_FIGURE = "figure"


@pytest.fixture
def note(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Return a function that prints a sentence about a test's figures at the end of the session."""
    # A report's properties come from the process that ran the test.
    properties = request.node.user_properties
    return lambda sentence: properties.append((_FIGURE, f"{request.node.name}: {sentence}"))


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
    """Print the figures."""
    found = [
        sentence
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport) and report.when == "call"
        for name, sentence in report.user_properties
        if name == _FIGURE
    ]
    if found:
        terminalreporter.section("accuracy")
        for sentence in found:
            terminalreporter.line(str(sentence))
