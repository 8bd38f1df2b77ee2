"""With which code does a run end that left a result?"""

from inferometer_api.results.result import OutcomeState, ResultDocument
from inferometer_cli.exits import Exit

_BY_STATE: dict[OutcomeState, Exit] = {
    "Failed": Exit.FAILED,
    "Refused": Exit.REFUSED,
    "Interrupted": Exit.INTERRUPTED,
    "Terminated": Exit.TERMINATED,
}


def exit_of(document: ResultDocument) -> Exit:
    """Return the exit code that a result stands for."""
    if document.outcome.state != "Complete":
        return _BY_STATE[document.outcome.state]
    return Exit.VALID if document.valid else Exit.INVALID
