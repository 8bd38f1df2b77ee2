"""A watch reports changes of children, and a load pod's answers are bounded."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from structlog.testing import capture_logs
from typing_extensions import override

from inferometer_api.plan.cluster_objects import RUN_UID_LABEL
from inferometer_api.plan.load_report import LoadReport
from inferometer_operator.cluster import child_watch
from inferometer_operator.cluster.child_store import ChildStore
from inferometer_operator.cluster.child_watch import ChildChange, ChildWatch
from inferometer_operator.cluster.connection import ApiConnection
from inferometer_operator.cluster.errors import ApiError, ApiUnreachableError
from inferometer_operator.cluster.loadgen_client import LoadgenClient

Script = list[dict[str, Any] | list[Any] | Exception]


class _Connection(ApiConnection):
    """Answers each request with the next part of a script: a page, or the events of a watch."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self.requests: list[str] = []
        """The requests: LIST, LIST and where to go on, or WATCH and since when."""

    def _next(self, request: str) -> dict[str, Any] | list[Any]:
        self.requests.append(request)
        part = self._script.pop(0) if self._script else asyncio.CancelledError()
        if not isinstance(part, dict | list):
            raise part
        return part

    @override
    async def request(self, method: str, path: str, **options: Any) -> Any:
        query = options["query"]
        assert query["labelSelector"] == "app.kubernetes.io/managed-by=inferometer-operator"
        assert 0 < int(query["limit"]) <= 500
        assert "resourceVersion" not in query, "the list must hold every earlier write"
        return self._next(f"LIST {query.get('continue', '')}".strip())

    @override
    @contextlib.asynccontextmanager
    async def stream(  # type: ignore[override]  # as a context manager
        self, _path: str, *, query: dict[str, str], **_: Any
    ) -> AsyncIterator[aiohttp.StreamReader]:
        assert query["labelSelector"] == "app.kubernetes.io/managed-by=inferometer-operator"
        part = self._next(f"WATCH {query['resourceVersion']}")
        reader = aiohttp.StreamReader(
            aiohttp.base_protocol.BaseProtocol(asyncio.get_running_loop()), 2**16
        )
        text = b"".join(json.dumps(each).encode() + b"\n" for each in part)
        # Lines come in pieces, as a network cuts them.
        for start in range(0, len(text), 7):
            reader.feed_data(text[start : start + 7])
        reader.feed_eof()
        yield reader


def _object(version: str, name: str = "a") -> dict[str, Any]:
    labels = {RUN_UID_LABEL: f"run-of-{name}"}
    owner = {"uid": f"run-of-{name}", "controller": True}
    return {
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": f"uid-{name}",
            "resourceVersion": version,
            "labels": labels,
            "ownerReferences": [owner],
        }
    }


def _event(kind: str, version: str, name: str = "a") -> dict[str, Any]:
    return {"type": kind, "object": _object(version, name)}


def _page(version: str, *objects: dict[str, Any], going_on: str = "") -> dict[str, Any]:
    metadata = {"resourceVersion": version, **({"continue": going_on} if going_on else {})}
    return {"metadata": metadata, "items": list(objects)}


@dataclass
class _Watched:
    changes: list[tuple[str, str]]
    requests: list[str]
    signs: int
    held: list[str]


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Callable[[Script], _Watched]:
    """Watch by a script until its end, without pauses."""
    monkeypatch.setattr(child_watch, "_BACKOFF_SECONDS", (0.0,))

    def run(script: Script) -> _Watched:
        changes: list[ChildChange] = []
        signs: list[int] = []
        connection, store = _Connection(script), ChildStore()
        watch = ChildWatch(
            connection,
            "Pod",
            "ns",
            store,
            changed=changes.append,
            on_event=lambda: signs.append(1),
        )
        with contextlib.suppress(asyncio.CancelledError), capture_logs():
            asyncio.run(watch.run())
        held = [name for name in "abc" if store.get("Pod", "ns", name, f"run-of-{name}")]
        return _Watched(
            [(each.type, each.run_uid[-1]) for each in changes],
            connection.requests,
            len(signs),
            held,
        )

    return run


def test_a_watch_lists_once_and_goes_on_where_it_was(
    watched: Callable[[Script], _Watched],
) -> None:
    """From the last version that it heard, bookmarks included, also after a fault."""
    found = watched(
        [
            _page("3", _object("1"), going_on="more"),
            _page("3", _object("2", "b")),
            [_event("MODIFIED", "4"), _event("BOOKMARK", "5")],
            ApiUnreachableError("cut"),
            [_event("DELETED", "7", "b")],
        ]
    )
    assert found.changes == [("ADDED", "a"), ("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")]
    assert found.requests == ["LIST", "LIST more", "WATCH 3", "WATCH 5", "WATCH 5", "WATCH 7"]
    assert found.signs == 7
    assert found.held == ["a"]


def test_a_watch_that_missed_too_much_lists_anew(watched: Callable[[Script], _Watched]) -> None:
    """A list reports what is gone meanwhile, and not what is as it was."""
    gone = {"type": "ERROR", "object": {"code": 410, "reason": "Expired", "message": "too old"}}
    found = watched(
        [
            _page("3", _object("1"), _object("2", "b")),
            [gone],
            _page("9", _object("1"), _object("8", "c")),
        ]
    )
    assert found.requests == ["LIST", "WATCH 3", "LIST", "WATCH 9"]
    assert found.changes == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c"), ("DELETED", "b")]
    assert found.held == ["a", "c"]


def test_a_list_that_expires_half_way_begins_anew(watched: Callable[[Script], _Watched]) -> None:
    """A page that never came is not a page without objects."""
    found = watched(
        [
            _page("3", _object("1"), going_on="more"),
            ApiError(410, "Expired", "too old"),
            ApiError(429, "TooManyRequests", "later", retry_after_seconds=0.001),
            _page("4", _object("1"), _object("2", "b")),
        ]
    )
    assert found.requests == ["LIST", "LIST more", "LIST", "LIST", "WATCH 4"]
    assert found.held == ["a", "b"]


@pytest.mark.parametrize(
    ("status", "text", "headers", "understood"),
    [
        (200, '{"documentBytes": 3}', {}, True),
        (200, "{", {}, False),
        (200, '{"unknown": 1}', {}, True),
        (500, "{}", {}, False),
        (302, "{}", {"Location": "/elsewhere"}, False),
        (200, '{"documentMissingReason": "' + "x" * (2 << 20) + '"}', {}, False),
    ],
    ids=["well", "cut", "unknown", "fault", "redirect", "huge"],
)
def test_whatever_a_load_pod_answers_is_bounded_and_never_followed(
    status: int, text: str, headers: dict[str, str], *, understood: bool
) -> None:
    """A run's pods may say anything."""
    followed: list[str] = []

    async def progress(_: web.Request) -> web.Response:
        return web.Response(status=status, text=text, headers=headers)

    async def elsewhere(request: web.Request) -> web.Response:
        followed.append(request.path)
        return web.Response(text="{}")

    async def fetch() -> LoadReport | None:
        application = web.Application()
        application.router.add_get("/progress", progress)
        application.router.add_get("/elsewhere", elsewhere)
        async with (
            TestServer(application, host="127.0.0.1") as server,
            aiohttp.ClientSession() as session,
        ):
            return await LoadgenClient(session, int(server.port or 0)).report("127.0.0.1")

    report = asyncio.run(fetch())
    assert (report is not None) == understood
    assert followed == []


def test_a_missing_load_pod_gives_no_report() -> None:
    """Neither progress nor that it will stop."""

    async def fetch() -> tuple[LoadReport | None, bool]:
        async with aiohttp.ClientSession() as session:
            pods = LoadgenClient(session, 1)
            return await pods.report("127.0.0.1"), await pods.stop("127.0.0.1", "token")

    assert asyncio.run(fetch()) == (None, False)
