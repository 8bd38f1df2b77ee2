"""A tenant's answers are those of a service that has no other tenant, byte for byte."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from fastapi.routing import APIRoute
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inferometer_api.results.service_paths import EXPLORER, suite_page
from inferometer_results.service import app
from inferometer_results.store.index_rows import JournalRow, Origin
from inferometer_results.store.query import Search
from inferometer_results.store.search_fields import FIELDS
from inferometer_results.store.store import Store
from inferometer_results.store.suite_outcomes import keep_outcome
from inferometer_results.store.summaries import conditions_of
from inferometer_results.store.visibility import from_context
from support.cluster_service import ScriptedAuthority, caller, cluster_client
from support.stored_results import CLUSTER, LOCAL, a_document
from support.suite_results import a_suite_outcome

_SECRET = "othertenant"  # noqa: S105 - a word that stands in their results alone
_AT = "2026-02-01T00:00:00.000Z"


def _documents(secret: str) -> list[bytes]:
    """Return documents whose names, models, nodes and labels hold a word."""
    found = []
    for number, like in ((1, CLUSTER), (2, LOCAL)):
        text = json.dumps(json.loads(a_document(number, like)))
        document = json.loads(text)
        document["runId"] = f"{secret}-{number}"
        document["run"]["metadata"]["name"] = f"{secret}-{number}"
        document["run"]["metadata"]["labels"] = {"team": secret}
        document["environment"]["model"]["name"] = f"model-{secret}"
        document["environment"]["node"]["hostname"] = f"node-{secret}"
        found.append(json.dumps(document).encode())
    return found


class _Tenants:
    """Two services: in one both tenants have results, in the other ann alone has."""

    def __init__(self, folder: Path) -> None:
        authority = ScriptedAuthority(
            {("ann", "get", "a"), ("bob", "get", "b"), ("root", "get", "")},
            {"a": "uid-a", "b": "uid-b", "again": "uid-new"},
        )
        others = [
            ("b", "uid-b"),
            # A namespace that is gone, and one that was made anew.
            ("gone", "uid-gone"),
            ("again", "uid-old"),
        ]
        authority.rights |= {("ann", "get", "again"), ("ann", "get", "gone")}
        self.shared, self.alone = str(folder / "shared.db"), str(folder / "alone.db")
        self.their_ids: list[str] = []
        with Store(self.shared) as shared, Store(self.alone) as alone:
            for number, (namespace, uid) in enumerate(others):
                for document in _documents(f"{_SECRET}{number}"):
                    id_ = _add(shared, document, namespace, uid)
                    shared.note(id_, JournalRow(_AT, _SECRET, "tag", _SECRET))
                    self.their_ids.append(id_)
                their = Origin("operator", _AT, "cluster-1", namespace, uid)
                content = a_suite_outcome("night", "FAIL", suite=f"{_SECRET}{number}")
                keep_outcome(shared, content, their)
            own = [
                [_add(store, document, "a", "uid-a") for document in _documents("own")]
                for store in (shared, alone)
            ]
            self.spec = alone.find(Search(limit=1))[0]["spec_digest"]
        assert own[0] == own[1]
        self.own_ids = own[0]
        self.clients = [cluster_client(each, authority) for each in (self.shared, self.alone)]

    def answers(self, path: str, user: str = "ann") -> list[tuple[int, bytes]]:
        """Return what both services answer."""
        found = [client.get(f"{EXPLORER}{path}", headers=caller(user)) for client in self.clients]
        return [(each.status_code, each.content) for each in found]


def _add(store: Store, document: bytes, namespace: str, uid: str) -> str:
    origin = Origin("operator", _AT, "cluster-1", namespace, uid)
    return store.add(document, origin, source="x").id


@pytest.fixture(scope="module")
def tenants(tmp_path_factory: pytest.TempPathFactory) -> _Tenants:
    """Return both services."""
    return _Tenants(tmp_path_factory.mktemp("tenants"))


def _routes(found: Iterable[Any]) -> Iterator[APIRoute]:
    """Yield the routes of an application, also those of the routers that it includes."""
    for each in found:
        if isinstance(each, APIRoute):
            yield each
        else:
            yield from _routes(getattr(getattr(each, "original_router", None), "routes", ()))


def _paths(tenants: _Tenants) -> Iterator[str]:
    """Yield every route that reads, with every value that could name a result of the others."""
    store = Store(tenants.alone)
    routes = list(_routes(app._explorer(store, "1.2.3").routes))
    store.engine.dispose()
    words = [
        tenants.their_ids[0],
        tenants.their_ids[0][:6],
        tenants.own_ids[0],
        f"model-{_SECRET}0",
    ]
    queries = [
        "",
        "limit=1",
        "limit=1&offset=1",
        "sort=-p99&retracted=true&format=csv",
        f"text={_SECRET}0",
        f"model=model-{_SECRET}0",
        "model=model-own&mixed=true",
        # Tenants that measure the same share a specification and its conditions.
        *(f"spec={tenants.spec}&node=node-{name}" for name in ("own", f"{_SECRET}0")),
        *(f"id={one}&id={other}" for one in words[::2] for other in words[::2]),
        *(
            f"where={quote(where)}"
            for where in (
                f"model=model-{_SECRET}0",
                f"run~{_SECRET}",
                "namespace=b",
                f"tag={_SECRET}",
                f"label.team={_SECRET}0",
                "namespace!=a or p99<10s",
            )
        ),
    ]
    # A suite of the others, which has no result.
    yield from (suite_page(f"{_SECRET}0", execution) for execution in ("", "b/night", "night"))
    for route in routes:
        names = list(route.param_convertors)
        for word in words if names else words[:1]:
            path = route.path
            for name in names:
                path = path.replace(f"{{{name}}}", quote(word))
            for query in queries if word == words[0] or not names else queries[:1]:
                yield f"{path}?{query}"


def test_every_route_answers_as_if_there_were_no_other_tenant(tenants: _Tenants) -> None:
    """Counts, pages, IDs that exist, tags and labels of others leave no trace in any answer."""
    seen = 0
    for path in _paths(tenants):
        shared, alone = tenants.answers(path)
        assert shared == alone, path
        assert shared[0] < 500, path
        seen += shared[0] == 200
    assert seen > 30


def test_conditions_are_those_of_visible_results(tenants: _Tenants) -> None:
    """A comparability key of others cannot be looked up."""
    with Store(tenants.shared) as store:
        keys = {each["key"] for row in store.find(Search()) for each in row["measurements"]}
        assert set(conditions_of(store, keys)) == keys
    with Store(tenants.shared, lambda: frozenset({"uid-a"})) as store:
        assert conditions_of(store, keys)
    with Store(tenants.shared, lambda: frozenset({"uid-nobody"})) as store:
        assert conditions_of(store, keys) == {}


def test_the_others_are_there(tenants: _Tenants) -> None:
    """Their own tenant sees them, and a cluster-wide right shows those of gone namespaces too."""

    def total(user: str) -> int:
        return int(json.loads(tenants.answers("/api/v1/results", user)[0][1])["total"])

    assert [total(user) for user in ("ann", "bob", "root", "nobody")] == [2, 2, 8, 0]
    assert tenants.answers(f"/results/{tenants.their_ids[0]}", "bob")[0][0] == 200
    page = tenants.answers(f"/suites/{_SECRET}0", "bob")[0]
    assert (page[0], b"<b>FAIL</b>" in page[1]) == (200, True)
    assert tenants.answers(f"/results/{tenants.their_ids[-1]}", "root")[0][0] == 200


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    field=st.sampled_from([*FIELDS, "tag", "label.team"]),
    operator=st.sampled_from(["=", "!=", "<", ">", "~"]),
    value=st.one_of(
        st.sampled_from([_SECRET, f"{_SECRET}0", "uid-b", "b", "cluster-1", "0", "9e9", "1s"]),
        st.text(max_size=8),
    ),
    joint=st.sampled_from(["{}", "not {}", "{} or run=own-1", "({}) and model~own"]),
    sort=st.sampled_from(list(FIELDS)),
)
def test_no_condition_tells_of_other_tenants(
    tenants: _Tenants, field: str, operator: str, value: str, joint: str, sort: str
) -> None:
    """Whatever is searched for, and however it is sorted."""
    quoted = value.replace('"', "")
    where = joint.format(f'{field}{operator}"{quoted}"')
    path = f"/api/v1/results?where={quote(where)}&sort={quote(sort)}&retracted=true"
    shared, alone = tenants.answers(path)
    assert shared == alone
    assert shared[0] < 500


def test_a_read_without_a_decision_returns_nothing(tenants: _Tenants) -> None:
    """A route that forgot to ask who the caller is would show an empty store."""
    with Store(tenants.shared, from_context()) as store:
        assert store.count(Search(with_retracted=True)) == 0
        assert list(store.documents()) == []
        assert store.journal() == []
