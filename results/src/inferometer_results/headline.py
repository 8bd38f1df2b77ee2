"""The outcome of a run in one word and one sentence."""

from dataclasses import dataclass
from typing import Literal

from inferometer_api.results.result import OutcomeState, ResultDocument, Step
from inferometer_api.results.verdict_sentences import (
    invalid_sentence,
    scenario_count,
    valid_sentence,
)
from inferometer_results.findings import cautions_of

Tone = Literal["good", "bad", "unfinished"]


@dataclass(frozen=True, slots=True)
class Headline:
    """The outcome of a run, to be read first."""

    word: str
    """VALID, INVALID, or how an incomplete run ended."""
    tone: Tone
    sentence: str


def headline(document: ResultDocument) -> Headline:
    """Return the verdict over the whole run, or how an incomplete run ended."""
    state = document.outcome.state
    if state != "Complete":
        return Headline(state.upper(), "unfinished", f"{_ended(state)} {_measured_part(document)}")
    # A scenario counts once, whatever its repeats.
    invalid = {each.name for each in document.scenarios if each.verdict.state == "INVALID"}
    total = len({each.name for each in document.scenarios})
    if not total:
        return Headline("NOTHING MEASURED", "unfinished", "The run has no scenarios.")
    if invalid:
        return Headline("INVALID", "bad", invalid_sentence(len(invalid), total))
    return Headline("VALID", "good", valid_sentence(total, len(cautions_of(document))))


def model_of(document: ResultDocument) -> str:
    """Return what was measured: the model's URI, or its name on an external server."""
    model = document.run.spec.model
    return model.uri or model.name or ""


def is_open_loop(step: Step) -> bool:
    """Return whether queries were sent on a schedule, independent of the server's answers."""
    return step.scheduled_qps is not None


def _ended(state: OutcomeState) -> str:
    # A newer version may have more states.
    match str(state):
        case "Failed":
            return "The run failed before it was complete."
        case "Refused":
            return "The run cannot be carried out."
        case "Interrupted":
            return "The run was interrupted before it was complete."
        case "Terminated":
            return "The run was terminated before it was complete."
        case "Complete":
            return "The run is complete."
        case other:
            return f"The run ended in the state {other}."


def _measured_part(document: ResultDocument) -> str:
    if not document.scenarios:
        return "Nothing was measured."
    planned = len(document.run.spec.scenarios) * document.run.spec.validity.repeats
    return (
        f"The figures are what was measured until then: "
        f"{len(document.scenarios)} of {scenario_count(planned)}."
    )
