"""10,000 fuzzed requests of two tenants: none fails inside, and none shows the other tenant."""

import asyncio
import json
import random
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlencode

from fastapi.routing import APIRoute
from starlette.types import ASGIApp, Message

from inferometer_api.results.service_paths import EXPLORER
from inferometer_results.service import app as service_app
from inferometer_results.store.index_rows import JournalRow, Origin
from inferometer_results.store.search_fields import FIELDS
from inferometer_results.store.store import Store
from support.cluster_service import NOW, ScriptedAuthority, cluster_app
from support.postgresql import postgresql
from support.stored_results import CLUSTER, LOCAL, a_document

REQUESTS = 10_000
SEED = 20261124
TENANTS = ("ann", "bob")
_PARAMETERS = (
    "where", "sort", "limit", "offset", "text", "retracted", "format", "columns", "id", "model",
    "scenario", "mixed", "spec", "node", "step", "figure", "execution", "after",
)  # fmt: skip
_WORDS = (
    "", "0", "1", "-1", "2", "50", "500", "501", "1e9", "9" * 30, "true", "false", "csv", "json",
    "junit", "parquet", "p99", "-p99", "-started", "latency", "traffic", "a", "b", "\0", "'", '"',
    "%", "_", "\\", "<script>", "{{1}}", "../..", "\N{SNOWMAN}", "\u202e", "x" * 300, "(" * 40,
    "and", "or", "not", "=", "~", "1e400ms", "nan", "inf", "5ms", "-5J", "uid-b", "team-ann",
    "team-bob",
)  # fmt: skip
_METHODS = (*["GET"] * 18, "HEAD", "POST", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "brew")
_WRITES = ("/api/v1/namespaces/{namespace}/results", "/api/v1/results/{id}/journal")
_BODIES = (
    b"", b"{}", b"[]", b"null", b"\xff\xfe", b'{"action": "tag", "text": "x"}',
    b'{"action": "retract", "text": "busy"}', b'{"action": "restore"}', b'{"action": 1}',
    b'{"action": "untag", "text": "x"}', b'{"kind": "BenchmarkResult"}', b"{" * 3000,
)  # fmt: skip


_SENSIBLE: dict[str, tuple[str, ...]] = {
    "sort": tuple(f"{sign}{name}" for sign in ("", "-") for name in FIELDS),
    "format": ("json", "csv", "junit", "markdown", "openmetrics"),
    "figure": ("p50", "p99", "qps", "peak", "energy"),
}


class _Fuzzer:
    """Draws requests: half of a value's parts are sensible, so that all routes are reached."""

    def __init__(self, paths: list[str], ids: dict[str, list[str]]) -> None:
        self._chance = random.Random(SEED)  # noqa: S311 - no secret
        self._paths = paths
        self._ids = ids
        self._documents = [a_document(number, LOCAL) for number in range(900, 903)]

    def request(self) -> tuple[str, str, str, list[tuple[bytes, bytes]], bytes]:
        """Return caller, method, target, headers and body."""
        chance = self._chance
        method = chance.choice(_METHODS)
        path = chance.choice(self._paths)
        if method == "POST" and chance.random() < 0.8:
            path = chance.choice(_WRITES)
        while "{" in path:
            begin, end = path.index("{"), path.index("}") + 1
            value = self._value(path[begin + 1 : end - 1])
            path = path[:begin] + quote(value, safe="") + path[end:]
        if chance.random() < 0.05:
            path += chance.choice(("/", "//x", "/%00", "/..%2f..", "?"))
        query = urlencode(
            [
                (name, self._value(name))
                for name in chance.choices(_PARAMETERS, k=chance.randrange(4))
            ]
        )
        body = b""
        if method in {"POST", "PUT", "DELETE"}:
            body = chance.choice((*_BODIES, *self._documents))
        headers = []
        if body and chance.random() < 0.9:
            kind = b"text/plain" if chance.random() < 0.05 else b"application/json"
            headers.append((b"content-type", kind))
        if chance.random() < 0.2:
            headers.append((b"accept-encoding", b"gzip"))
        if chance.random() < 0.1:
            headers.append((b"content-encoding", chance.choice((b"gzip", b"br", b""))))
        target = f"{path}?{query}" if query else path
        return chance.choice(TENANTS), method, target, headers, body

    def _value(self, name: str) -> str:
        chance = self._chance
        if chance.random() < 0.3:
            return "".join(chance.choices(_WORDS, k=chance.randrange(1, 4)))
        if name == "where":
            return self._condition(0)
        if name == "namespace":
            return chance.choice("ab")
        if name in {"id", "id_", "after"}:
            known = self._ids[chance.choice(TENANTS)]
            found = chance.choice([*known, "a", "b", "suite-ann", "f" * 32])
            return found[: chance.choice((3, 4, 12, 32))]
        if name in {"model", "node", "text"}:
            return f"{name}-{chance.choice(TENANTS)}"
        return chance.choice(_SENSIBLE.get(name, _WORDS))

    def _condition(self, depth: int) -> str:
        chance = self._chance
        if depth < 4 and chance.random() < 0.4:
            first, second = (self._condition(depth + 1) for _ in range(2))
            return chance.choice(("({} and {})", "{} or {}", "not ({}) and {}")).format(
                first, second
            )
        name = chance.choice([*FIELDS, "tag", "label.team"])
        operator = chance.choice(("=", "!=", "<", "<=", ">", ">=", "~"))
        value = chance.choice((*_WORDS, "model-ann", "node-bob", "VALID", "1s", "2J", "2026-02"))
        return f'{name}{operator}"{value}"' if chance.random() < 0.5 else f"{name}{operator}{value}"


def _fill(address: str, tenants: tuple[str, ...]) -> dict[str, list[str]]:
    """Keep four results of each tenant; return their IDs."""
    ids: dict[str, list[str]] = {each: [] for each in TENANTS}
    with Store(address) as store:
        for name in tenants:
            for number, like in enumerate((LOCAL, LOCAL, CLUSTER, CLUSTER)):
                document: dict[str, Any] = json.loads(a_document(number, like))
                document["runId"] = f"{name}-{number}"
                document["run"]["metadata"] |= {
                    "name": f"run-{name}",
                    "labels": {"team": f"team-{name}", "inferometer.dev/suite": f"suite-{name}"},
                }
                document["environment"]["model"]["name"] = f"model-{name}"
                document["environment"]["node"]["hostname"] = f"node-{name}"
                origin = Origin("operator", NOW, "cluster-1", name[0], f"uid-{name[0]}")
                id_ = store.add(json.dumps(document).encode(), origin, source="x").id
                store.note(id_, JournalRow(NOW, name, "tag", f"tag-{name}"))
                ids[name].append(id_)
    return ids


def _paths(address: str) -> list[str]:
    """Return the path of every route, with names in braces for its values."""
    store = Store(address)
    explorer = service_app._explorer(store, "1.2.3")
    store.engine.dispose()
    found = {route.path for route in _routes(explorer.routes)}
    return sorted({*found, *_WRITES, "/x", ""})


def _routes(found: Any) -> Iterator[APIRoute]:
    for each in found:
        if isinstance(each, APIRoute):
            yield each
        else:
            yield from _routes(getattr(getattr(each, "original_router", None), "routes", ()))


async def _ask(
    app: ASGIApp,
    user: str,
    method: str,
    target: str,
    headers: list[tuple[bytes, bytes]],
    body: bytes,
) -> tuple[int, bytes]:
    """Return status and body of an answer, as a server would ask for it."""
    path, _, query = target.partition("?")
    raw = f"{EXPLORER}{path}"
    sent = [(b"host", b"127.0.0.1"), (b"x-remote-user", user.encode()), *headers]
    if body:
        sent.append((b"content-length", str(len(body)).encode()))
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "https",
        "path": unquote(raw),
        "raw_path": raw.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": sent,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8443),
        "state": {},
    }
    status, parts = 0, [b""]

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        else:
            parts.append(message.get("body", b""))

    await app(scope, receive, send)
    return status, b"".join(parts)


def _authority() -> ScriptedAuthority:
    """Let each tenant read and measure in a namespace of their own."""
    return ScriptedAuthority(
        {(name, verb, name[0]) for name in TENANTS for verb in ("get", "create")},
        {"a": "uid-a", "b": "uid-b"},
    )


def test_no_request_fails_inside_with_postgresql() -> None:
    """It refuses some values that SQLite takes."""
    with (
        tempfile.TemporaryDirectory(prefix="pg-") as folder,
        postgresql(Path(folder)) as address,
    ):
        ids = _fill(address, TENANTS)
        app = cluster_app(address, _authority())
        fuzzer = _Fuzzer(_paths(address), ids)

        async def ask() -> None:
            for number in range(REQUESTS // 10):
                user, method, target, headers, body = fuzzer.request()
                where = f"request {number} of {user}: {method} {target!r} {body[:80]!r}"
                try:
                    status, _ = await _ask(app, user, method, target, headers, body)
                except Exception as error:
                    raise AssertionError(where) from error
                assert status < 500, where

        asyncio.run(ask())


def test_no_request_fails_inside_or_tells_of_the_other_tenant(tmp_path: Path) -> None:
    """Each is answered as by a service that holds the caller's results alone, byte for byte.

    Both tenants also change their own results, so that the stores do not stay as they were.
    """
    authority = _authority()
    shared = str(tmp_path / "shared.db")
    ids = _fill(shared, TENANTS)
    apps = {"shared": cluster_app(shared, authority)}
    for name in TENANTS:
        _fill(str(tmp_path / f"{name}.db"), (name,))
        apps[name] = cluster_app(str(tmp_path / f"{name}.db"), authority)
    fuzzer = _Fuzzer(_paths(shared), ids)
    statuses: Counter[int] = Counter()

    async def compare() -> None:
        for number in range(REQUESTS):
            user, method, target, headers, body = fuzzer.request()
            where = f"request {number} of {user}: {method} {target!r} {headers} {body[:80]!r}"
            try:
                together = await _ask(apps["shared"], user, method, target, headers, body)
            except Exception as error:
                raise AssertionError(where) from error
            alone = await _ask(apps[user], user, method, target, headers, body)
            assert together[0] < 500, where
            assert together == alone, where
            statuses[together[0]] += 1

    asyncio.run(compare())
    assert set(statuses) >= {200, 201, 400, 403, 404, 405}, statuses
    assert statuses[200] > REQUESTS // 10, statuses
