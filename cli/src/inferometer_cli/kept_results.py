"""Which result does a person name: a file, or a run in a cluster?"""

from pathlib import Path

from inferometer_api.results.result import ResultDocument
from inferometer_cli.cluster.options import Where
from inferometer_cli.exits import RefusedError
from inferometer_cli.kept import parse_result

WHICH_RESULT = (
    "A path (with a slash, or .json at its end) is a file. Every other name is a run in a cluster, "
    "but for that of an existing file where neither --namespace, --context nor --kubeconfig is "
    "said."
)
"""How the name of a result is understood, in the help of the commands that take one."""


def is_file(asked: str, where: Where) -> bool:
    """Whether these words name a file."""
    if "/" in asked or asked.endswith(".json"):
        return True
    return Path(asked).is_file() and not where.is_said


def read_kept(asked: str, where: Where) -> ResultDocument:
    """Return the result of this name; raises RefusedError or FailedError where there is none."""
    return _read_file(Path(asked)) if is_file(asked, where) else _read_run(asked, where)


def _read_file(path: Path) -> ResultDocument:
    try:
        text = path.read_bytes()
    except OSError as error:
        raise RefusedError(f"{path} cannot be read: {error.strerror}.") from error
    return parse_result(text, source=str(path))


def _read_run(name: str, where: Where) -> ResultDocument:
    from inferometer_cli.cluster.api import connected
    from inferometer_cli.cluster.results import read_result
    from inferometer_cli.cluster.runs import read_run

    cluster = connected(where)
    run = read_run(cluster, name)
    return parse_result(
        read_result(cluster, run), source=f"The result of {run.namespace}/{run.name}"
    )
