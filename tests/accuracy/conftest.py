"""What did the accuracy tier find? It is told at the end of the run, with its seeds."""

from collections.abc import Callable

import pytest

_FOUND = pytest.StashKey[list[str]]()


@pytest.fixture
def tell(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Give what takes a sentence about a test's figures."""
    found = request.config.stash.setdefault(_FOUND, [])
    return lambda sentence: found.append(f"{request.node.name}: {sentence}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what was found."""
    found = terminalreporter.config.stash.get(_FOUND, [])
    if found:
        terminalreporter.section("accuracy")
        for sentence in found:
            terminalreporter.line(sentence)
