"""`status` says when the operator of a run is gone."""

from datetime import UTC, datetime
from typing import Any

import pytest
from typing_extensions import override

from inferometer_cli.cluster.api import Cluster, ForbiddenError, NotThereError
from inferometer_cli.cluster.operator_state import operator_lines
from inferometer_cli.cluster.runs import seen
from support.cluster_runs import a_condition

_NOW = datetime(2026, 3, 12, 14, 10, 0, tzinfo=UTC)
_NAMED = "operator  bench/inferometer-operator"
_CHECK = "Check its pods: kubectl get pods -n bench"


class _Cluster(Cluster):
    """A cluster with one Lease, or an error instead of it."""

    def __init__(self, lease: Any) -> None:
        self._lease = lease
        self._server_time = _NOW
        self.paths: list[str] = []

    @override
    def read(self, path: str, *_: object, **__: object) -> Any:
        """Return the Lease."""
        self.paths.append(path)
        if isinstance(self._lease, Exception):
            raise self._lease
        return {"spec": self._lease}


def _lines(lease: Any, **status: Any) -> list[str]:
    found = {"operator": "bench/inferometer-operator", "phase": "Measuring", **status}
    metadata = {"name": "a", "namespace": "team", "uid": "1"}
    run = seen({"metadata": metadata, "spec": {}, "status": found})
    return operator_lines(_Cluster(lease), run)


def test_an_operator_that_renews_its_lease_is_named() -> None:
    """Its run may show no change for long: it waits for a node, for example."""
    old = "2026-03-12T13:00:00Z"
    renewed = {"renewTime": "2026-03-12T14:09:57.000000Z"}
    assert _lines(renewed, operatorRenewTime=old) == [_NAMED]
    assert _lines({"renewTime": "2026-03-12T14:08:01.000000Z"}) == [_NAMED]


def test_an_operator_that_is_silent_for_minutes_is_reported() -> None:
    """By the times of the API server alone."""
    assert _lines({"renewTime": "2026-03-12T14:07:59.000000Z"}) == [
        _NAMED,
        f"No operator has updated this run for 2 min. {_CHECK}",
    ]
    (_, gone) = _lines(NotThereError("no"))
    assert gone == f"No operator works on this run: its Lease does not exist. {_CHECK}"


@pytest.mark.parametrize("phase", ["Starting", "Measuring"])
def test_an_author_who_may_not_read_the_lease_sees_when_a_run_was_last_confirmed(
    phase: str,
) -> None:
    """An operator that serves every namespace confirms each run that has begun every 4 min."""
    confirmed = {"phase": phase, "operatorRenewTime": "2026-03-12T14:05:01Z"}
    assert _lines(ForbiddenError("no"), **confirmed) == [_NAMED]
    gone = {"phase": phase, "operatorRenewTime": "2026-03-12T14:05:00Z"}
    words = f"No operator has updated this run for 5 min. {_CHECK}"
    assert _lines(ForbiddenError("no"), **gone) == [_NAMED, words]


def test_a_run_that_has_not_begun_needs_no_confirmation() -> None:
    """It may wait in the queue for long."""
    assert _lines(ForbiddenError("no"), phase="Queued") == [_NAMED]


def test_a_run_that_has_ended_needs_no_operator() -> None:
    """And one that no operator has taken names none."""
    ended = [a_condition("Complete", "True", "Measured")]
    assert _lines(NotThereError("no"), conditions=ended) == []
    assert _lines(NotThereError("no"), operator=None) == []
