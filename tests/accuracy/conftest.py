"""Prints the figures that tests on the real clock find, at the end of the session."""

from collections.abc import Callable

import pytest

_FIGURE = "figure"


@pytest.fixture
def note(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Return a function that prints a sentence about a test's figures at the end of the session."""
    # A report's properties come from the process that ran the test.
    properties = request.node.user_properties
    return lambda sentence: properties.append((_FIGURE, f"{request.node.name}: {sentence}"))


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
