"""The state of a run's operator, by the Lease that the run's status names."""

from datetime import datetime
from urllib.parse import quote

from inferometer_api.timestamps import parse_time
from inferometer_cli.cluster.api import Cluster, NotThereError
from inferometer_cli.cluster.runs import SeenRun
from inferometer_cli.exits import FailedError, RefusedError
from inferometer_cli.text_table import printable

_SILENT_SECONDS = 120
"""An operator renews its Lease every few seconds, and reports progress every ten."""


def operator_lines(cluster: Cluster, run: SeenRun) -> list[str]:
    """Return the line that names the operator of a run, and one more if it seems to be gone."""
    named = run.status.operator
    if named is None or run.has_ended:
        return []
    namespace, _, name = named.partition("/")
    check = f"Check its pods: kubectl get pods -n {printable(namespace)}"
    lines = [f"operator  {printable(named)}"]
    path = f"/apis/coordination.k8s.io/v1/namespaces/{quote(namespace)}/leases/{quote(name)}"
    try:
        lease = cluster.read(path)
    except NotThereError:
        return [*lines, f"No operator works on this run: its Lease does not exist. {check}"]
    except (RefusedError, FailedError):
        # Authors may not read Leases of other namespaces.
        return [*lines, *_by_status(run, cluster.now, check)]
    minutes = _silent_minutes((lease.get("spec") or {}).get("renewTime"), cluster.now)
    if minutes is None:
        return lines
    return [*lines, f"No operator has updated this run for {minutes} min. {check}"]


def _by_status(run: SeenRun, now: datetime, check: str) -> list[str]:
    """Return a line if the status has not changed for minutes, although load is sent."""
    minutes = _silent_minutes(run.updated_at, now) if run.status.phase == "Measuring" else None
    if minutes is None:
        return []
    return [f"The status of this run has not changed for {minutes} min. {check}"]


def _silent_minutes(text: object, now: datetime) -> int | None:
    """Return how many minutes ago a time was, if an operator that works is not silent so long."""
    then = parse_time(text)
    seconds = 0.0 if then is None else (now - then).total_seconds()
    return int(seconds // 60) if seconds >= _SILENT_SECONDS else None
