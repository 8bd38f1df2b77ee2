"""Cancelling a run, and what that means for a run in each phase."""

from inferometer_cli.cluster.api import Cluster
from inferometer_cli.cluster.run_summary import headline
from inferometer_cli.cluster.runs import SeenRun, seen
from inferometer_cli.program import program_name


def cancel_run(cluster: Cluster, run: SeenRun) -> tuple[SeenRun, str]:
    """Cancel a run unless it has ended; return its new state and a sentence for the user."""
    sentence = describe_cancellation(run)
    if run.has_ended or run.spec.get("cancel"):
        return run, sentence
    return seen(cluster.merge(cluster.run_path(run.name), {"spec": {"cancel": True}})), sentence


def describe_cancellation(run: SeenRun) -> str:
    """Return what happens to a run that is cancelled now."""
    which = f"{run.namespace}/{run.name}"
    if run.has_ended:
        head = headline(run)
        return f"{which} has ended already; nothing was changed. {head.word}: {head.sentence}"
    if run.spec.get("cancel"):
        return f"{which} was cancelled before and is ending."
    measured, total = len(run.status.scenarios), len(run.spec.get("scenarios", ()))
    match run.status.phase:
        case "Measuring":
            result = f"`{program_name()} result {run.name} -n {run.namespace}`"
            return (
                f"{which} is cancelled. {measured} of {total} scenarios are measured; they are "
                "kept, with what the current scenario has measured so far. Once the run is "
                f"finished, {result} downloads them."
            )
        case "Starting":
            return f"{which} is cancelled. It was still starting; whatever it has measured is kept."
        case _:
            return f"{which} is cancelled. It had not started; nothing is measured."
