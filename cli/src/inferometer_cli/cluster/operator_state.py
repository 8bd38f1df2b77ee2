"""The state of a run's operator, by the Lease that the run's status names."""

from datetime import datetime
from urllib.parse import quote

from inferometer_api.timestamps import parse_time
from inferometer_cli.cluster.api import Cluster, NotThereError
from inferometer_cli.cluster.runs import SeenRun
from inferometer_cli.exits import FailedError, RefusedError
from inferometer_cli.terminal import printable

_SILENT_SECONDS = 120
"""An operator renews its Lease every few seconds."""
_UNCONFIRMED_SECONDS = 300
"""One that serves every namespace confirms each run that has begun every 4 min."""


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
        renewed = run.status.operator_renew_time
        return [*lines, *_silence(renewed, cluster.now, _UNCONFIRMED_SECONDS, check)]
    renewed = (lease.get("spec") or {}).get("renewTime")
    return [*lines, *_silence(renewed, cluster.now, _SILENT_SECONDS, check)]


def _silence(renewed: object, now: datetime, most_seconds: int, check: str) -> list[str]:
    """Return a line if an operator that works would have renewed since then."""
    then = parse_time(renewed)
    seconds = 0.0 if then is None else (now - then).total_seconds()
    if seconds < most_seconds:
        return []
    return [f"No operator has updated this run for {int(seconds // 60)} min. {check}"]
