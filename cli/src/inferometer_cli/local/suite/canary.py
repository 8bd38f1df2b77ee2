"""The canary before a suite: a few seconds that show whether this machine is what it was."""

from inferometer_api.nodes.changes import CANARY_CHANGE, CANARY_PRIMITIVES, reservations
from inferometer_cli.exits import FailedError, RefusedError
from inferometer_cli.terminal import print_message


def machine_changes() -> str:
    """Return what has changed since this machine was last measured, printed as cautions too.

    Empty if nothing has, or if `inferometer node` did not measure this machine lately.
    """
    from inferometer_cli.local.node_benchmark import measure_node
    from inferometer_cli.local.node_documents import recent_measurements
    from inferometer_cli.result_store import open_store
    from inferometer_results.nodes.view import changed_figures

    try:
        with open_store(None) as store:
            known = recent_measurements(store)
        if not known:
            return ""
        print_message("canary: is this machine what it was?")
        now = measure_node(None, CANARY_PRIMITIVES, lambda *_: None)
    except (FailedError, RefusedError, OSError) as error:
        print_message(f"note: The canary did not run: {error}")
        return ""
    sentences = changed_figures(known, now, CANARY_CHANGE)
    if not sentences:
        return ""
    for sentence in sentences:
        print_message(f"caution: This machine has changed: {sentence}")
    reservation = reservations(known, now)
    if reservation:
        print_message(f"note: {reservation}")
    return (
        f"Before the suite this machine had changed: {' '.join([*sentences, reservation])}".rstrip()
    )
