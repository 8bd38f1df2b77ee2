"""The canary before a suite: a few seconds that show whether this machine is what it was."""

from inferometer_api.nodes.canary import (
    CANARY_PRIMITIVES,
    canary_changes,
    unchanged_sentences,
    unknown_sentence,
)
from inferometer_api.nodes.changes import reservations
from inferometer_cli.exits import FailedError, RefusedError
from inferometer_cli.terminal import print_message

_NODE = "this machine"


def look_at_machine() -> str:
    """Return whether this machine has changed since it was last measured, and print it.

    That nothing was measured is said too, with its reason.
    """
    from inferometer_cli.local.node_benchmark import measure_node
    from inferometer_cli.local.node_documents import recent_measurements
    from inferometer_cli.result_store import open_store
    from inferometer_results.nodes.view import changed_figures

    try:
        with open_store(None) as store:
            known = recent_measurements(store)
        if not known:
            why = "`inferometer node` did not measure it in the last 30 days"
            return _note(unknown_sentence(_NODE, why))
        print_message("canary: is this machine what it was?")
        now = measure_node(None, CANARY_PRIMITIVES, lambda *_: None)
    except (FailedError, RefusedError, OSError) as error:
        return _note(unknown_sentence(_NODE, f"the canary failed: {error}"))
    changes = canary_changes(known, now)
    if not changes:
        return _note(unchanged_sentences(_NODE, known, now))
    sentences = changed_figures(changes)
    for sentence in sentences:
        print_message(f"caution: This machine has changed: {sentence}")
    reservation = reservations(changes, known, now)
    if reservation:
        print_message(f"note: {reservation}")
    return (
        f"Before the suite this machine had changed: {' '.join([*sentences, reservation])}".rstrip()
    )


def _note(sentence: str) -> str:
    print_message(f"note: {sentence}")
    return sentence
