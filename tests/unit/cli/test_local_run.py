"""The outcome of a run follows from the outcome of its load generator."""

import asyncio

import pytest

from inferometer_api.results.result import Outcome, OutcomeState
from inferometer_cli.local.child_process import describe_exit
from inferometer_cli.local.run import _explain


@pytest.mark.parametrize("state", ["Interrupted", "Terminated"])
def test_a_load_generator_stopped_from_outside_has_failed(state: OutcomeState) -> None:
    """If this command did not stop the load generator, the run is Failed, not Interrupted."""
    reported = Outcome(state=state, reason=state)
    outcome = asyncio.run(_explain(reported, None))
    assert (outcome.state, outcome.reason) == ("Failed", "LoadGeneratorStopped")
    assert outcome.message


@pytest.mark.parametrize(
    "given",
    [
        Outcome(state="Complete", reason="Measured"),
        Outcome(state="Refused", reason="InputRefused", message="It does not fit."),
        Outcome(state="Failed", reason="ServerLost", message="It was lost."),
    ],
)
def test_an_external_server_adds_no_output(given: Outcome) -> None:
    """A server that the run did not start has no last output to add."""
    assert asyncio.run(_explain(given, None)) == given


def test_exits_are_described_in_words() -> None:
    """Codes and signals have names, also signals unknown to Python."""
    assert describe_exit(1) == "exit code 1"
    assert describe_exit(-9) == "signal SIGKILL"
    assert describe_exit(-40) == "signal 40"
