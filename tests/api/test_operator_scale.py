"""Hundreds of kept and queued runs cost the operator next to nothing."""

from collections.abc import Callable, Iterable
from functools import partial

import pytest

from support.cluster.audit import Request, missed_renewals, most_in_a_minute, requests
from support.many_runs import apply_runs, delete_runs, keep_runs, runs_of, wrong_positions
from support.stage import Stage

_KEPT, _QUEUED = 500, 50
_FEW = 10
_MOST_READS, _MOST_WRITES = 25, 22
_PROGRESS_WRITES = 3
"""What tests/unit/operator/test_worker.py shows of a run that measures for long."""
_BY_CHANCE = frozenset({"events", "pods", "benchmarkruns/status"})
"""They count towards the most, and not in the comparison: events and pods are read if a machine
without CPU for seconds makes pods hang, or a watch late, and two changes that come close together
are one write of the status, or two."""
_LEASE = ("--lease-seconds", "60")
"""A machine without CPU for seconds must not cost the Lease."""
_RENEW_SECONDS = 12.0


def test_kept_and_queued_runs_cost_next_to_nothing(
    stage: Stage, require_quiet: Callable[[], None]
) -> None:
    """A leader that meets 500 kept runs reads each once, in pages; 50 come and go at once."""
    stage.play("loadgen", stage.loads.follow)
    keep_runs(stage.api, stage.namespace, _KEPT)
    began = _log_bytes(stage)
    operator = stage.start_operator(*_LEASE)
    stage.apply("running")
    stage.load("running")
    names = apply_runs(stage.api, stage.namespace, "queued", _QUEUED)
    _positions_are_right(stage, "queued")
    # From the front and from the middle: every run that stays moves, some of them twice as far.
    gone = [*names[: _QUEUED // 5], *names[2 * _QUEUED // 5 : 3 * _QUEUED // 5]]
    delete_runs(stage.api, stage.namespace, gone)
    _positions_are_right(stage, "queued")
    made = _made(stage, began)
    listed = [each for each in made if each.resource == "benchmarkruns" and each.verb == "list"]
    assert len(listed) <= _KEPT / 100 + 1
    assert not [each for each in made if each.name.startswith("kept-")]
    assert most_in_a_minute(made, names, writes=False) <= 2
    assert most_in_a_minute(made, names, writes=True) <= 2
    delete_runs(stage.api, stage.namespace, [each for each in names if each not in gone])
    stage.wait_for(
        lambda: "0.0" in _queued_metric(operator.health("/metrics")[1]), "an empty queue"
    )
    stage.wait_for(lambda: _renewals(stage, began) >= 2, "two renewals")
    assert operator.exit_code is None
    assert operator.log_events("lease_renewal_failed") == []
    lease = stage.api.found("Lease", stage.namespace, "inferometer-operator")
    assert lease is not None
    assert lease["spec"]["leaseTransitions"] <= 1
    stage.load("running").end()
    stage.finished("running")
    missed = missed_renewals(_made(stage, began), _RENEW_SECONDS)
    if missed:
        require_quiet()
    assert missed == 0


def test_what_a_run_costs_does_not_depend_on_the_queue(stage: Stage) -> None:
    """At most 25 reads and 22 writes; with 50 behind it at most 1.2 times those with 10."""
    stage.play("loadgen", stage.loads.follow)
    stage.start_operator(*_LEASE)
    costs, made_by = [], []
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
        load.judge("latency")
        stage.wait_for(partial(_has_scenario, stage, probe), "the scenario")
        load.end()
        stage.finished(probe)
        own = _own(_made(stage, began), probe, "behind-")
        reads, writes = _counted(own)
        assert reads <= _MOST_READS, own
        assert writes <= _MOST_WRITES - _PROGRESS_WRITES, own
        compared = [each for each in own if each.resource not in _BY_CHANCE]
        costs.append(_counted(compared))
        made_by.append([(each.verb, each.resource, each.name) for each in compared])
        delete_runs(stage.api, stage.namespace, names)
        stage.wait_for(lambda: not runs_of(stage.api, stage.namespace, "behind-"), "their end")
    (few_reads, few_writes), (reads, writes) = costs
    assert reads <= 1.2 * few_reads, made_by
    assert writes <= 1.2 * few_writes, made_by


def _has_scenario(stage: Stage, run: str) -> bool:
    return bool(stage.status(run).get("scenarios"))


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


def _queued_metric(page: str) -> str:
    return next(
        line for line in page.splitlines() if line.startswith('inferometer_runs{phase="Queued')
    )


def _own(made: list[Request], probe: str, behind: str) -> list[Request]:
    """Return the requests for one run: all until its status was final, but those of others."""
    final = max(each.received for each in made if each.name == probe and each.writes)
    return [
        each
        for each in made
        if each.resource != "leases"
        and each.verb != "watch"
        and not each.name.startswith(behind)
        and (each.received <= final or each.name.startswith(probe))
        and not (each.resource == "benchmarkruns" and each.verb == "list")
    ]


def _counted(made: Iterable[Request]) -> tuple[int, int]:
    """Return how many requests read, and how many write."""
    writes = [each.writes for each in made]
    return writes.count(False), writes.count(True)


pytestmark = pytest.mark.usefixtures("kubelet")
