"""Hundreds of kept and queued runs cost the operator next to nothing."""

from collections import Counter

import pytest

from support.cluster.audit import Request, requests
from support.many_runs import apply_runs, delete_runs, keep_runs, runs_of, wrong_positions
from support.stage import Stage

_KEPT, _QUEUED = 500, 50
_FEW = 10
_MOST_READS, _MOST_WRITES = 25, 22
_CHANCE_READS = 3
"""On a machine without CPU for seconds the operator reads Events, and pods that no watch showed."""
_LEASE = ("--lease-seconds", "60")
"""A machine without CPU for seconds must not cost the Lease; it is renewed every 12 s."""


def test_kept_and_queued_runs_cost_next_to_nothing(stage: Stage) -> None:
    """A leader that meets 500 kept runs reads each once, in pages; 50 come and go at once."""
    stage.play("loadgen", stage.loads.follow)
    keep_runs(stage.api, stage.namespace, _KEPT)
    began = _log_bytes(stage)
    operator = stage.start_operator(*_LEASE)
    stage.apply("running")
    stage.load("running")
    names = apply_runs(stage.api, stage.namespace, "queued", _QUEUED)
    _positions_are_right(stage, "queued")
    made = _made(stage, began)
    listed = [each for each in made if each.resource == "benchmarkruns" and each.verb == "list"]
    assert len(listed) <= _KEPT / 100 + 1
    assert not [each for each in made if each.name.startswith("kept-")]
    for name, (reads, writes) in _by_queued_run(made).items():
        assert reads <= 2, name
        assert writes <= 2, name
    delete_runs(stage.api, stage.namespace, names)
    stage.wait_for(
        lambda: "0.0" in _queued_metric(operator.health("/metrics")[1]), "an empty queue"
    )
    stage.wait_for(lambda: _renewals(stage, began), "a renewal")
    assert _missed_renewals(stage, began) == []
    assert operator.exit_code is None
    assert operator.log_events("lease_renewal_failed") == []
    lease = stage.api.found("Lease", stage.namespace, "inferometer-operator")
    assert lease is not None
    assert lease["spec"]["leaseTransitions"] <= 1
    stage.load("running").end()
    stage.finished("running")


def test_what_a_run_costs_does_not_depend_on_the_queue(stage: Stage) -> None:
    """At most 25 reads and 22 writes; with 50 behind it at most 1.2 times those with 10."""
    stage.play("loadgen", stage.loads.follow)
    stage.start_operator(*_LEASE)
    costs = []
    for queued in (_FEW, _QUEUED):
        began = _log_bytes(stage)
        probe = f"probe-{queued}"
        stage.apply(probe)
        load = stage.load(probe)
        behind = f"behind-{queued}"
        names = apply_runs(stage.api, stage.namespace, behind, queued, suspend=False)
        _positions_are_right(stage, behind)
        load.show("Measuring", "latency")
        stage.wait("Measuring", name=probe)
        load.end()
        stage.finished(probe)
        costs.append(_cost(_made(stage, began), probe, "behind-"))
        delete_runs(stage.api, stage.namespace, names)
        stage.wait_for(lambda: not runs_of(stage.api, stage.namespace, "behind-"), "their end")
    for reads, writes in costs:
        assert reads <= _MOST_READS, costs
        assert writes <= _MOST_WRITES, costs
    (few_reads, few_writes), (reads, writes) = costs
    assert reads <= 1.2 * few_reads + _CHANCE_READS, costs
    assert writes <= 1.2 * few_writes, costs


def _positions_are_right(stage: Stage, prefix: str) -> None:
    stage.wait_for(
        lambda: not wrong_positions(runs_of(stage.api, stage.namespace, prefix)),
        lambda: f"{wrong_positions(runs_of(stage.api, stage.namespace, prefix))}\n{stage.logs()}",
    )


def _log_bytes(stage: Stage) -> int:
    return stage.control_plane.audit_log.stat().st_size


def _made(stage: Stage, began: int) -> list[Request]:
    return list(requests(stage.control_plane.audit_log, stage.user, began))


def _renewals(stage: Stage, began: int) -> int:
    made = _made(stage, began)
    return sum(each.resource == "leases" and each.verb == "update" for each in made)


def _missed_renewals(stage: Stage, began: int) -> list[Request]:
    """Return the requests for the Lease that did not succeed, but for its first creation."""
    leases = [each for each in _made(stage, began) if each.resource == "leases"]
    return [each for each in leases[2:] if each.code >= 300]


def _by_queued_run(made: list[Request]) -> dict[str, tuple[int, int]]:
    """Return reads and writes by queued run."""
    of = [each for each in made if each.name.startswith("queued-")]
    reads = Counter(each.name for each in of if not each.writes)
    writes = Counter(each.name for each in of if each.writes)
    return {name: (reads[name], writes[name]) for name in {*reads, *writes}}


def _queued_metric(page: str) -> str:
    return next(
        line for line in page.splitlines() if line.startswith('inferometer_runs{phase="Queued')
    )


def _cost(made: list[Request], probe: str, behind: str) -> tuple[int, int]:
    """Return reads and writes of one run: all until its status was final, but those of others."""
    final = max(each.received for each in made if each.name == probe and each.writes)
    own = [
        each
        for each in made
        if each.resource != "leases"
        and each.verb != "watch"
        and not each.name.startswith(behind)
        and (each.received <= final or each.name.startswith(probe))
        and not (each.resource == "benchmarkruns" and each.verb == "list")
    ]
    writes = sum(each.writes for each in own)
    return len(own) - writes, writes


pytestmark = pytest.mark.usefixtures("kubelet")
