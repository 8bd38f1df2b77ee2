"""One operator leads at a time, whatever clocks, answers and other operators do."""

import asyncio
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from typing_extensions import override

from inferometer_operator.cluster.connection import ApiConnection
from inferometer_operator.cluster.errors import ApiError, ApiUnreachableError
from inferometer_operator.cluster.lease import Lease, LeaseConfig, LeaseLostError
from inferometer_operator.cluster.lease_thread import LeaseThread
from inferometer_operator.cluster.server_clock import ApiServerClock
from support.waiting import DEADLINE_SECONDS, within_deadline

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
_TERMS = LeaseConfig("lease", "ns", "me", seconds=0.15)


class _Cluster:
    """A Lease in memory, with the optimistic locking of an API server."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.fault: Callable[[], Exception] | None = None
        self.before_answer: Callable[[], None] = lambda: None
        self.writes = 0
        self.asked: list[str] = []

    async def ask(self, method: str, _path: str, *, body: Any = None) -> Any:
        self.asked.append(method)
        self.before_answer()
        if self.fault is not None:
            raise self.fault()
        if method == "GET":
            if self.lease is None:
                raise ApiError(404, "NotFound", "not found")
            return self.lease
        if method == "POST" and self.lease is not None:
            raise ApiError(409, "AlreadyExists", "exists")
        if method == "PUT" and body["metadata"] != self.lease_metadata():
            raise ApiError(409, "Conflict", "changed")
        self.writes += 1
        metadata = {"resourceVersion": str(self.writes)}
        self.lease = {**body, "metadata": metadata}
        return self.lease

    def lease_metadata(self) -> Any:
        return None if self.lease is None else self.lease["metadata"]

    def held_by(self, holder: str) -> None:
        self.writes += 1
        self.lease = {
            "metadata": {"resourceVersion": str(self.writes)},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 1},
        }


class _Connection(ApiConnection):
    """A connection to such a cluster."""

    def __init__(self, cluster: _Cluster) -> None:
        self.request = cluster.ask  # type: ignore[method-assign,assignment]  # a cluster in memory
        self.clock = ApiServerClock(local=lambda: NOW)

    @override
    async def __aexit__(self, *_: object) -> None:
        """Close nothing."""


def _lease(cluster: _Cluster, clock: Callable[[], float], terms: LeaseConfig = _TERMS) -> Lease:
    return Lease(_Connection(cluster), terms, clock)


def test_a_free_lease_is_taken_at_once() -> None:
    """The first operator leads."""
    cluster = _Cluster()
    asyncio.run(_lease(cluster, lambda: 0.0).acquire())
    assert cluster.lease is not None
    assert cluster.lease["spec"]["holderIdentity"] == "me"
    assert cluster.lease["spec"]["leaseTransitions"] == 1


def test_a_lease_that_another_holds_is_taken_when_it_is_not_renewed() -> None:
    """Its age counts by one's own clock, from when it was first seen."""
    cluster = _Cluster()
    cluster.held_by("other")
    now = [100.0]

    def clock() -> float:
        now[0] += 0.3
        return now[0]

    asyncio.run(_lease(cluster, clock).acquire())
    assert cluster.lease is not None
    assert cluster.lease["spec"]["holderIdentity"] == "me"
    assert now[0] >= 101.0


def test_a_lease_belongs_to_its_holder_until_it_is_over() -> None:
    """For its whole duration after it was first seen, no other operator writes it."""
    cluster = _Cluster()
    cluster.held_by("other")
    now = [0.0]

    def tick() -> None:
        now[0] += 0.125
        if now[0] < 1.125:
            assert cluster.writes == 1

    cluster.before_answer = tick
    terms = LeaseConfig("lease", "ns", "me", seconds=0.01)
    asyncio.run(_lease(cluster, lambda: now[0], terms).acquire())
    assert now[0] == 1.25  # first seen at 0.125, over at 1.125, and then one answer to the write


def test_a_lease_is_as_old_as_the_answer_that_showed_it() -> None:
    """It may have been renewed while a slow answer was under way."""
    cluster = _Cluster()
    cluster.held_by("other")
    now = [0.0]
    request_times: list[float] = []

    def slow() -> None:
        now[0] += 5.0
        request_times.append(now[0])

    cluster.before_answer = slow
    asyncio.run(_lease(cluster, lambda: now[0]).acquire())
    assert len(request_times) == 3  # two reads, and the write that takes it
    assert cluster.lease is not None
    assert cluster.lease["spec"]["holderIdentity"] == "me"


def test_a_lease_that_is_renewed_is_left_to_its_holder() -> None:
    """Until it is renewed no more, which is after its 20th renewal here."""
    cluster = _Cluster()
    now = [0.0]

    def renew() -> None:
        now[0] += 10.0
        if len(cluster.asked) <= 20:
            cluster.held_by("other")
            assert cluster.lease is not None
            cluster.lease["spec"]["renewTime"] = str(now[0])

    cluster.before_answer = renew
    terms = LeaseConfig("lease", "ns", "me", seconds=0.01)
    asyncio.run(_lease(cluster, lambda: now[0], terms).acquire())
    assert cluster.asked == ["GET"] * 21 + ["PUT"]


def test_work_ends_when_another_took_the_lease() -> None:
    """Two never lead."""
    cluster = _Cluster()

    async def lost() -> None:
        lease = _lease(cluster, lambda: 0.0)
        await lease.acquire()
        cluster.held_by("other")
        await lease.keep_renewed()

    with pytest.raises(LeaseLostError, match="Another operator holds the Lease lease"):
        asyncio.run(lost())


@pytest.mark.parametrize(
    "fault",
    [lambda: ApiUnreachableError("cut"), lambda: ApiError(503, "ServiceUnavailable", "no etcd")],
)
def test_work_ends_before_the_lease_is_over_where_it_cannot_be_renewed(
    fault: Callable[[], Exception],
) -> None:
    """A cluster that does not answer may have given it to another by then."""
    cluster = _Cluster()
    now = [0.0]

    async def lost() -> None:
        lease = _lease(cluster, lambda: now[0])
        await lease.acquire()
        cluster.fault = fault
        keeping = asyncio.create_task(lease.keep_renewed())
        async with within_deadline("the end of a Lease that cannot be renewed"):
            while not keeping.done():
                now[0] += 0.01
                await asyncio.sleep(0.001)
            await keeping

    with pytest.raises(LeaseLostError, match="could not be renewed"):
        asyncio.run(lost())
    assert now[0] < 100


def test_a_released_lease_is_free_at_once() -> None:
    """The next operator need not wait; what another holds meanwhile is left alone."""
    cluster = _Cluster()

    async def released() -> None:
        lease = _lease(cluster, lambda: 0.0)
        await lease.acquire()
        await lease.release()
        other = _lease(cluster, lambda: 0.0, LeaseConfig("lease", "ns", "other"))
        await other.acquire()
        await lease.release()

    asyncio.run(released())
    assert cluster.lease is not None
    assert cluster.lease["spec"]["holderIdentity"] == "other"


def test_a_suspended_operator_writes_nothing() -> None:
    """Once its Lease was not renewed for two thirds of its duration, each write is refused."""
    cluster = _Cluster()
    now = [0.0]

    async def suspended() -> None:
        terms = LeaseConfig("lease", "ns", "me", seconds=15.0)
        lease = _lease(cluster, lambda: now[0], terms)
        with pytest.raises(LeaseLostError):
            lease.check_held()
        await lease.acquire()
        now[0] += 9.9
        lease.check_held()
        now[0] += 0.1
        with pytest.raises(LeaseLostError, match="too old for a write"):
            lease.check_held()

    asyncio.run(suspended())


def test_an_operator_that_was_replaced_writes_nothing() -> None:
    """However young its last renewal is."""
    cluster = _Cluster()

    async def replaced() -> None:
        lease = _lease(cluster, lambda: 0.0)
        await lease.acquire()
        lease.check_held()
        cluster.held_by("other")
        with pytest.raises(LeaseLostError):
            await lease.keep_renewed()
        with pytest.raises(LeaseLostError):
            lease.check_held()

    asyncio.run(replaced())


def test_an_operator_that_hangs_renews_no_more() -> None:
    """Another one must lead, since the thread of the Lease would go on for ever."""
    cluster = _Cluster()
    now = [0.0]

    async def hung() -> None:
        lease = Lease(_Connection(cluster), _TERMS, lambda: now[0], lambda: False)
        await lease.acquire()
        keeping = asyncio.create_task(lease.keep_renewed())
        async with within_deadline("the end of the Lease of an operator that hangs"):
            while not keeping.done():
                assert cluster.writes == 1
                now[0] += 0.01
                await asyncio.sleep(0.001)
            await keeping

    with pytest.raises(LeaseLostError, match="main loop does not respond"):
        asyncio.run(hung())


def test_the_lease_is_renewed_while_the_main_loop_is_busy() -> None:
    """Its thread needs nothing of the main loop but that it was alive."""
    cluster = _Cluster()
    renewed = threading.Event()

    def count() -> None:
        if cluster.writes > 4:
            renewed.set()

    async def connect() -> ApiConnection:
        return _Connection(cluster)

    async def busy() -> None:
        terms = LeaseConfig("lease", "ns", "me", seconds=0.1)
        async with LeaseThread(connect, terms, lambda: True, lambda: 0.0) as lease:
            await lease.acquire()
            cluster.before_answer = count
            keeping = asyncio.create_task(lease.keep_renewed())
            await asyncio.sleep(0)
            assert renewed.wait(DEADLINE_SECONDS), "The Lease was not renewed."
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)
            await lease.release()

    asyncio.run(busy())
    assert cluster.lease is not None
    assert cluster.lease["spec"]["holderIdentity"] == ""


def test_times_in_the_lease_are_the_api_servers() -> None:
    """Readers compare them with the API server's time."""
    cluster = _Cluster()
    asyncio.run(_lease(cluster, lambda: 0.0).acquire())
    assert cluster.lease is not None
    assert cluster.lease["spec"]["renewTime"].startswith("2026-01-31T12:00:0")


def test_a_deleted_lease_is_created_again_by_its_holder() -> None:
    """A standby that saw it held leaves that to the holder, for its whole duration."""
    cluster = _Cluster()
    now = [0.0]
    terms = LeaseConfig("lease", "ns", "other", seconds=15.0)
    holder = LeaseConfig("lease", "ns", "me", seconds=15.0)

    async def deleted() -> None:
        lease, standby = (_lease(cluster, lambda: now[0], each) for each in (holder, terms))
        assert await lease.try_acquire()
        assert not await standby.try_acquire()
        cluster.lease = None
        now[0] += 14.9
        assert not await standby.try_acquire()
        assert await lease.try_acquire()
        cluster.lease = None
        now[0] += 0.1
        assert await standby.try_acquire()

    asyncio.run(deleted())


def test_a_conflict_keeps_no_lease_from_its_release() -> None:
    """A third client wrote it meanwhile: it is read again, and free at once."""
    cluster = _Cluster()
    left = [2]

    def annotate() -> None:
        if cluster.asked[-1] == "PUT" and left[0] and cluster.lease is not None:
            left[0] -= 1
            cluster.lease["metadata"] = {"resourceVersion": f"third-{left[0]}"}

    async def released() -> None:
        lease = _lease(cluster, lambda: 0.0)
        await lease.acquire()
        cluster.before_answer = annotate
        await lease.release()

    asyncio.run(released())
    assert cluster.lease is not None
    assert (left[0], cluster.lease["spec"]["holderIdentity"]) == (0, "")


def test_a_write_of_a_third_client_costs_no_lease() -> None:
    """A conflict does not say that another operator leads."""
    cluster = _Cluster()
    left = [0]

    def annotate() -> None:
        if cluster.asked[-1] == "PUT" and left[0] and cluster.lease is not None:
            left[0] -= 1
            cluster.lease["metadata"] = {"resourceVersion": f"third-{left[0]}"}

    async def conflicts() -> None:
        lease = _lease(cluster, lambda: 0.0)
        await lease.acquire()
        cluster.before_answer = annotate
        left[0] = 2
        assert await lease.try_acquire()
        left[0] = 9
        with pytest.raises(ApiError, match="changed"):
            await lease.try_acquire()

    asyncio.run(conflicts())


def test_a_restarted_container_leads_again_at_once() -> None:
    """The Lease of its last start is its own; that of a pod with the same name is not."""
    cluster = _Cluster()
    starts = [
        LeaseConfig("lease", "ns", f"pod_{uid}_{number}", instance=f"pod_{uid}")
        for number, uid in enumerate(("u1", "u1", "u2"))
    ]

    async def restarted() -> None:
        assert await _lease(cluster, lambda: 0.0, starts[0]).try_acquire()
        assert await _lease(cluster, lambda: 0.0, starts[1]).try_acquire()
        assert not await _lease(cluster, lambda: 0.0, starts[2]).try_acquire()

    asyncio.run(restarted())
