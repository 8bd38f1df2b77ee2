"""What does it mean for a run to be cancelled now?"""

from inferometer_cli.cluster.api import Cluster
from inferometer_cli.cluster.run_summary import headline
from inferometer_cli.cluster.runs import SeenRun, seen
from inferometer_cli.program import program_name


def cancelled(cluster: Cluster, run: SeenRun) -> tuple[SeenRun, str]:
    """Ask for a run's end, unless it has ended; return it as it is then, and a sentence."""
    sentence = meaning(run)
    if run.has_ended or run.spec.get("cancel"):
        return run, sentence
    return seen(cluster.merge(cluster.run_path(run.name), {"spec": {"cancel": True}})), sentence


def meaning(run: SeenRun) -> str:
    """Return what becomes of a run that is asked to end now."""
    which = f"{run.namespace}/{run.name}"
    if run.has_ended:
        head = headline(run)
        return f"{which} has ended already, and nothing was changed. {head.word}: {head.sentence}"
    if run.spec.get("cancel"):
        return f"{which} was cancelled before, and is ending."
    measured, total = len(run.status.scenarios), len(run.spec.get("scenarios", ()))
    match run.status.phase:
        case "Measuring":
            kept = f"{measured} of {total} scenarios so far, and of the one that runs what it has"
            result = f"`{program_name()} result {run.name} -n {run.namespace}`"
            return (
                f"{which} is cancelled. It is measuring: what was measured is kept ({kept}), and "
                f"{result} gives it once the run is finished."
            )
        case "Starting":
            return f"{which} is cancelled. Its server was starting: nothing was measured yet."
        case _:
            return f"{which} is cancelled. It had not begun: nothing was measured."
