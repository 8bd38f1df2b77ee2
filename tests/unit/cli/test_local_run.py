"""What does a run make of the end that its load generator tells?"""

import asyncio

import pytest

from inferometer_api.results.result import Outcome, OutcomeState
from inferometer_cli.children import describe_exit
from inferometer_cli.local_run import _explained


@pytest.mark.parametrize("state", ["Interrupted", "Terminated"])
def test_a_load_generator_that_someone_else_stopped_has_failed(state: OutcomeState) -> None:
    """Nobody asked the run to end, so that it does not end as if someone had."""
    told = Outcome(state=state, reason=state)
    outcome = asyncio.run(_explained(told, None))
    assert (outcome.state, outcome.reason) == ("Failed", "LoadGeneratorStopped")
    assert outcome.message


@pytest.mark.parametrize(
    "told",
    [
        Outcome(state="Complete", reason="Measured"),
        Outcome(state="Refused", reason="InputRefused", message="It does not fit."),
        Outcome(state="Failed", reason="ServerLost", message="It was lost."),
    ],
)
def test_what_is_said_of_a_server_elsewhere_stands_as_it_is(told: Outcome) -> None:
    """A server that was not started here has no last lines to add."""
    assert asyncio.run(_explained(told, None)) == told


def test_exits_are_told_in_words() -> None:
    """Codes and signals have their names, also those that Python has no name for."""
    assert describe_exit(1) == "exit code 1"
    assert describe_exit(-9) == "signal SIGKILL"
    assert describe_exit(-40) == "signal 40"
