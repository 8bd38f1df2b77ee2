"""What did the accuracy tier find? It is told at the end of the run, with its seeds."""

from collections.abc import Callable

import pytest

_FOUND = "found"


@pytest.fixture
def tell(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Give what takes a sentence about a test's figures."""
    # A report's properties come from whichever process ran the test.
    properties = request.node.user_properties
    return lambda sentence: properties.append((_FOUND, f"{request.node.name}: {sentence}"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what was found."""
    found = [
        sentence
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport) and report.when == "call"
        for name, sentence in report.user_properties
        if name == _FOUND
    ]
    if found:
        terminalreporter.section("accuracy")
        for sentence in found:
            terminalreporter.line(str(sentence))
