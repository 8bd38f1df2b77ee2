"""A watch reports changes of children, and a load pod's answers are bounded."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from structlog.testing import capture_logs
from typing_extensions import override

from inferometer_api.plan.load_report import LoadReport
from inferometer_operator.cluster import child_watch
from inferometer_operator.cluster.child_watch import ChildChange, ChildWatch
from inferometer_operator.cluster.connection import ApiConnection
from inferometer_operator.cluster.errors import UnreachableError
from inferometer_operator.cluster.loadgen_client import LoadgenClient

Script = list[list[Any] | Exception]


class _Connection(ApiConnection):
    """Answers each watch with the next part of a script."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self.versions: list[str | None] = []

    @override
    @contextlib.asynccontextmanager
    async def stream(  # type: ignore[override]  # as a context manager
        self, _path: str, *, query: dict[str, str], **_: Any
    ) -> AsyncIterator[aiohttp.StreamReader]:
        self.versions.append(query.get("resourceVersion"))
        assert query["labelSelector"] == "app.kubernetes.io/managed-by=inferometer-operator"
        part = self._script.pop(0) if self._script else asyncio.CancelledError()
        if not isinstance(part, list):
            raise part
        reader = aiohttp.StreamReader(
            aiohttp.base_protocol.BaseProtocol(asyncio.get_running_loop()), 2**16
        )
        text = b"".join(json.dumps(each).encode() + b"\n" for each in part)
        # Lines come in pieces, as a network cuts them.
        for start in range(0, len(text), 7):
            reader.feed_data(text[start : start + 7])
        reader.feed_eof()
        yield reader


def _event(kind: str, version: str, name: str = "a") -> dict[str, Any]:
    return {"type": kind, "object": {"metadata": {"name": name, "resourceVersion": version}}}


def _watched(script: Script) -> tuple[list[ChildChange], list[str | None], int]:
    changes: list[ChildChange] = []
    events: list[int] = []
    connection = _Connection(script)
    watch = ChildWatch(
        connection, "Pod", "ns", changed=changes.append, on_event=lambda: events.append(1)
    )
    with contextlib.suppress(asyncio.CancelledError), capture_logs():
        asyncio.run(watch.run())
    return changes, connection.versions, len(events)


def test_a_watch_goes_on_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the last version that it heard, bookmarks included, also after a fault."""
    monkeypatch.setattr(child_watch, "_BACKOFF_SECONDS", (0.0,))
    changes, versions, events = _watched(
        [
            [_event("ADDED", "1"), _event("BOOKMARK", "5")],
            UnreachableError("cut"),
            [_event("DELETED", "7", "b")],
        ]
    )
    assert [(each.type, each.metadata["name"]) for each in changes] == [
        ("ADDED", "a"),
        ("DELETED", "b"),
    ]
    assert versions == [None, "5", "5", "7"]
    assert events == 5


def test_a_watch_that_missed_too_much_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then all objects are delivered again."""
    monkeypatch.setattr(child_watch, "_BACKOFF_SECONDS", (0.0,))
    gone = {"type": "ERROR", "object": {"code": 410, "reason": "Expired", "message": "too old"}}
    _, versions, _ = _watched([[_event("ADDED", "1")], [gone], [_event("ADDED", "9")]])
    assert versions == [None, "1", None, "9"]


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
