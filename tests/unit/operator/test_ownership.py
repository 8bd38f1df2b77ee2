"""A run belongs to the operator that its status names, as long as that one lives."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from inferometer_api.status.run_status import RunStatus
from inferometer_operator.cluster.errors import ApiError
from inferometer_operator.wiring.ownership import (
    LOOK_SECONDS,
    RENEW_SECONDS,
    UNCHANGED_SECONDS,
    Ownership,
)

BEGUN = "2026-01-31T12:00:00.000Z"
OWN, OTHER, LOCAL = "bench/inferometer-operator", "else/x", "team/inferometer-operator"


class _Leases:
    """The Leases that this operator can read, and a clock."""

    def __init__(self) -> None:
        self.specs: dict[str, Any] = {}
        self.forbidden: set[str] = set()
        self.reads = 0
        self.now = 100.0

    async def get(self, kind: str, namespace: str, name: str) -> Any:
        """Return a Lease, or refuse it."""
        assert kind == "Lease"
        self.reads += 1
        if f"{namespace}/{name}" in self.forbidden:
            raise ApiError(403, "Forbidden", "no")
        spec = self.specs.get(f"{namespace}/{name}")
        return None if spec is None else {"spec": spec}

    def hold(self, lease: str, holder: str = "pod", renewed: str = "1") -> None:
        """Let an operator hold its Lease."""
        spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed}
        self.specs[lease] = spec


class _Operator:
    """An operator with the Lease OWN."""

    def __init__(self, own: str = OWN, *, is_cluster_wide: bool = False) -> None:
        self.leases = _Leases()
        played: Any = self.leases
        self.ownership = Ownership(
            played, own, is_cluster_wide=is_cluster_wide, clock=lambda: self.leases.now
        )

    def rests(self, version: str, seconds: float) -> str:
        """Look at a run of OTHER again and again for so long; return to whom it is left then."""
        until = self.leases.now + seconds
        while self.leases.now < until:
            self.leaves(OTHER, version)
            self.leases.now += LOOK_SECONDS
        return self.leaves(OTHER, version)

    def leaves(self, named: str | None = None, version: str = "1", **status: Any) -> str:
        """Return to whom it leaves a run whose status names this operator."""
        found = {"startTime": BEGUN, **status, **({"operator": named} if named else {})}
        metadata = {"uid": "u", "namespace": "team", "name": "a", "resourceVersion": version}
        return asyncio.run(self.ownership.other_operator({"metadata": metadata, "status": found}))


def test_a_run_of_its_own_or_of_none_is_its() -> None:
    """No Lease is read for it."""
    operator = _Operator()
    assert operator.leaves() == operator.leaves(OWN) == ""
    assert _Operator("").leaves(OTHER) == ""
    assert operator.leases.reads == 0


def test_the_namespaces_own_operator_takes_what_has_not_begun() -> None:
    """The cluster-wide one then leaves it, even if it had the run before."""
    assert _Operator().leaves(OTHER, startTime=None) == ""
    everywhere = _Operator(is_cluster_wide=True)
    everywhere.leases.hold(LOCAL)
    assert everywhere.leaves(OWN, startTime=None) == LOCAL
    assert everywhere.leaves(LOCAL, startTime=None) == LOCAL
    assert everywhere.leaves(OWN) == ""


def test_a_run_is_taken_over_only_after_a_fresh_look() -> None:
    """An operator may have come back since its Lease was read."""
    operator = _Operator(is_cluster_wide=True)
    operator.leases.hold(LOCAL)
    assert operator.leaves(startTime=None) == LOCAL
    operator.leases.now += 15
    assert operator.leaves(startTime=None) == ""
    operator.leases.hold(LOCAL, holder="next")
    assert operator.leaves(startTime=None) == LOCAL
    assert operator.leaves(LOCAL, startTime=None) == LOCAL


def test_a_run_is_left_to_an_operator_that_renews_its_lease() -> None:
    """Whatever the times in it are: by the own clock, as a standby watches its leader."""
    operator = _Operator()
    for number in range(5):
        operator.leases.hold(OTHER, renewed=str(number))
        assert operator.leaves(OTHER) == OTHER
        operator.leases.now += 14
    operator.leases.now += 15
    assert operator.leaves(OTHER) == ""


_UNHELD = pytest.mark.parametrize(
    "spec", [None, {"holderIdentity": "", "leaseDurationSeconds": 1}, {}]
)


@pytest.mark.parametrize("begun", [BEGUN, None])
def test_a_run_is_taken_over_once_a_lease_has_had_no_holder_for_long(begun: str | None) -> None:
    """15 s after that was first seen: its operator may restart."""
    operator = _Operator(is_cluster_wide=True)
    operator.leases.specs[LOCAL] = {"holderIdentity": "", "leaseDurationSeconds": 1}
    for _ in range(3):
        assert operator.leaves(LOCAL, startTime=begun) == LOCAL
        operator.leases.now += 4.9
    operator.leases.now += 0.3
    assert operator.leaves(LOCAL, startTime=begun) == ""


@pytest.mark.parametrize("begun", [BEGUN, None])
def test_an_operator_that_never_was_holds_no_run_up(begun: str | None) -> None:
    """A Lease that was absent at the first look was not released by a restart."""
    operator = _Operator(is_cluster_wide=True)
    operator.leases.specs[LOCAL] = None
    assert operator.leaves(LOCAL, startTime=begun) == ""
    assert operator.leaves(None, startTime=None) == ""
    assert operator.leases.reads == 1
    # It is installed, and takes what comes a second later.
    operator.leases.hold(LOCAL)
    operator.leases.now += 1
    assert operator.leaves(None, startTime=None) == LOCAL


@_UNHELD
@pytest.mark.parametrize("named", [OWN, None])
def test_a_restart_of_the_namespaces_own_operator_hands_no_run_over(
    spec: Any, named: str | None
) -> None:
    """Its Lease is released for some seconds, and the next one of it acquires it."""
    operator = _Operator(is_cluster_wide=True)
    for number in range(3):
        operator.leases.hold(LOCAL, renewed=str(number))
        operator.leases.now += 5
        assert operator.leaves(named, startTime=None) == LOCAL
        operator.leases.now += 5
        operator.leases.specs[LOCAL] = spec
        assert operator.leaves(named, startTime=None) == LOCAL
        operator.leases.now += 14
        assert operator.leaves(named, startTime=None) == LOCAL
    operator.leases.now += 1
    assert operator.leaves(named, startTime=None) == ""


def test_many_runs_cost_one_read() -> None:
    """A Lease is read at most every five seconds."""
    operator = _Operator()
    operator.leases.hold(OTHER)
    for _ in range(100):
        assert operator.leaves(OTHER) == OTHER
    assert operator.leases.reads == 1


def test_an_operator_whose_lease_is_forbidden_is_given_up_when_its_run_rests() -> None:
    """Ten minutes without a change of the run; each change starts them anew."""
    operator = _Operator()
    operator.leases.forbidden.add(OTHER)
    assert operator.rests("1", UNCHANGED_SECONDS - LOOK_SECONDS) == OTHER
    assert operator.rests("2", UNCHANGED_SECONDS - LOOK_SECONDS) == OTHER
    operator.leases.now += LOOK_SECONDS - 1
    assert operator.leaves(OTHER, "2") == OTHER
    operator.leases.now += 1
    assert operator.leaves(OTHER, "2") == ""


def test_time_without_a_look_gives_no_operator_up() -> None:
    """If the API server did not answer, its run could not change."""
    operator = _Operator()
    operator.leases.forbidden.add(OTHER)
    assert operator.leaves(OTHER) == OTHER
    operator.leases.now += 10 * UNCHANGED_SECONDS
    assert operator.rests("1", UNCHANGED_SECONDS - LOOK_SECONDS) == OTHER


def test_a_run_that_rests_is_kept_by_the_operator_that_confirms_it() -> None:
    """A namespace's own operator may not read the Lease of one of the cluster, which lives."""
    owner, local = _Operator(is_cluster_wide=True), _Operator(LOCAL)
    local.leases.forbidden.add(OWN)
    status = RunStatus(start_time=BEGUN, phase="Complete")
    version, now = 1, datetime(2026, 1, 31, 12, tzinfo=UTC)
    for _ in range(400):
        confirmed = owner.ownership.signed(status, now)
        version += confirmed != status
        status = confirmed
        assert status.operator == OWN
        assert local.leaves(OWN, str(version)) == OWN
        local.leases.now += LOOK_SECONDS
        now += timedelta(seconds=LOOK_SECONDS)
    assert version == 1 + 400 * LOOK_SECONDS / RENEW_SECONDS


def test_a_confirmation_is_written_only_for_others_that_cannot_read_the_lease() -> None:
    """A run that waits costs no write, and neither does one of a namespace's own operator."""
    now = datetime(2026, 1, 31, 12, tzinfo=UTC)
    waits, begun = RunStatus(), RunStatus(start_time=BEGUN)
    everywhere, local = _Operator(is_cluster_wide=True).ownership, _Operator(LOCAL).ownership
    assert everywhere.signed(waits, now) == RunStatus(operator=OWN)
    assert everywhere.signed(begun, now).operator_renew_time is not None
    assert local.signed(begun, now) == RunStatus(start_time=BEGUN, operator=LOCAL)
    assert _Operator("").ownership.signed(begun, now) == begun


def test_the_leases_that_are_remembered_are_bounded() -> None:
    """A cluster may have had more namespaces than it has."""
    operator = _Operator(is_cluster_wide=True)
    for number in range(1200):
        operator.leases.now += 0.001
        metadata = {"uid": "u", "namespace": f"n{number}", "name": "a", "resourceVersion": "1"}
        asyncio.run(operator.ownership.other_operator({"metadata": metadata, "status": {}}))
    assert len(operator.ownership._leases) == 1000


def test_a_cluster_wide_operator_lets_the_namespaces_own_go_first() -> None:
    """It takes no run where one lives, and every run where none does, or it is itself."""
    operator = _Operator(is_cluster_wide=True)
    assert operator.leaves(startTime=None) == ""
    operator.leases.hold(LOCAL)
    operator.leases.now += 5
    assert operator.leaves(startTime=None) == LOCAL
    assert _Operator(LOCAL, is_cluster_wide=True).leaves(startTime=None) == ""


def test_whoever_looks_deletes_an_expired_run() -> None:
    """A finished run needs no operator of its own."""
    operator = _Operator()
    operator.leases.hold(OTHER)
    finished = {
        "type": "Finished",
        "status": "True",
        "reason": "Complete",
        "lastTransitionTime": "2026-01-31T12:00:00.000Z",
    }
    assert operator.leaves(OTHER, conditions=[finished]) == ""


def test_another_failure_is_none_of_its_business() -> None:
    """The read is retried: a run is not taken over meanwhile."""
    operator = _Operator()

    async def fail(*_: object) -> None:
        raise ApiError(500, "InternalError", "broken")

    operator.leases.get = fail  # type: ignore[assignment, method-assign]  # fails
    with pytest.raises(ApiError):
        operator.leaves(OTHER)
