"""In a cluster people annotate and delete results with the rights to do so."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from inferometer_api.results.service_paths import EXPLORER
from inferometer_results.explore.prices import read_prices
from inferometer_results.history.trend import ChangeFinding
from inferometer_results.store.index_rows import JournalRow, Origin
from inferometer_results.store.query import Search
from inferometer_results.store.store import Store
from inferometer_results.store.transfer import import_archive
from support.cluster_service import NOW, OPERATOR, ScriptedAuthority, caller, cluster_client
from support.stored_results import LOCAL, a_document, answers

API = f"{EXPLORER}/api/v1"
FINDING = ChangeFinding("latency", "", "p50", 1.1, 1.05, 1.15, 12).text()
_UNREADABLE = json.dumps(json.loads(FINDING) | {"scenario": []})
_NOBODYS = "0" * 32


class _Service:
    """Results of the namespaces a, b and of one that is gone; ann has all rights in a."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.authority = ScriptedAuthority(
            {("ann", verb, "a") for verb in ("get", "create", "delete")}
            | {("reader", "get", "a"), ("bob", "get", "b"), ("bob", "create", "b")}
            | {("root", verb, "") for verb in ("get", "create", "delete")},
            {"a": "uid-a", "b": "uid-b"},
            {"token": OPERATOR},
        )
        places = (("a", "uid-a"), ("a", "uid-a"), ("b", "uid-b"), ("gone", "uid-gone"))
        with Store(address) as store:
            self.ids = [
                store.add(a_document(number, LOCAL), _origin(*place), source="x").id
                for number, place in enumerate(places)
            ]
        self.client: TestClient = cluster_client(
            address, self.authority, prices=read_prices(_PRICES, "prices")
        )

    def annotate(
        self, user: str, id_: str, action: str, text: str = "", **more: Any
    ) -> tuple[int, dict[str, Any]]:
        """Add an entry to a result; return status and answer."""
        body = {"action": action, "text": text, **more}
        return self.post(user, id_, json.dumps(body).encode())

    def post(
        self, user: str, id_: str, body: bytes, headers: Mapping[str, str] | None = None
    ) -> tuple[int, dict[str, Any]]:
        """Send a body to the journal of a result."""
        sent = {"content-type": "application/json", **caller(user), **(headers or {})}
        answer = self.client.post(f"{API}/results/{id_}/journal", headers=sent, content=body)
        return answer.status_code, answer.json()

    def delete(self, user: str, id_: str) -> tuple[int, dict[str, Any]]:
        """Delete a result."""
        answer = self.client.delete(f"{API}/results/{id_}", headers=caller(user))
        return answer.status_code, answer.json()

    def get(self, user: str, path: str) -> bytes:
        """Return what a user reads."""
        answer = self.client.get(f"{API}{path}", headers=caller(user))
        assert answer.status_code == 200, answer.text
        return answer.content


_PRICES = "{currency: EUR, nodes: [{node: '*', perHour: 0.19}]}"


def _origin(namespace: str, uid: str) -> Origin:
    return Origin("operator", NOW, "cluster-1", namespace, uid)


@pytest.fixture
def service(tmp_path: Path) -> _Service:
    """Return a service with results."""
    return _Service(str(tmp_path / "results.db"))


def test_who_may_create_runs_tags_and_retracts_their_results(service: _Service) -> None:
    """The journal has the caller's name; a retraction leaves the list until it is taken back."""
    first, second = service.ids[:2]
    assert service.annotate("ann", first[:8], "tag", "baseline") == (201, {"id": first})
    assert json.loads(service.get("ann", "/results?where=tag%3Dbaseline"))["total"] == 1
    assert service.annotate("ann", second, "retract", "a backup ran")[0] == 201
    assert json.loads(service.get("ann", "/results"))["total"] == 1
    assert service.annotate("ann", second, "reject-change", FINDING)[0] == 201
    entries = json.loads(service.get("reader", "/journal"))
    assert entries[0] == {"id": first, "at": NOW, "by": "ann", "action": "tag", "text": "baseline"}
    assert [each["action"] for each in entries] == ["tag", "retract", "reject-change"]
    assert service.annotate("ann", second, "restore")[0] == 201
    assert service.annotate("ann", first, "untag", "baseline")[0] == 201
    assert json.loads(service.get("ann", "/results"))["total"] == 2
    assert json.loads(service.get("ann", "/results?where=tag%3Dbaseline"))["total"] == 0


def test_what_a_caller_may_not_read_does_not_exist_for_them(service: _Service) -> None:
    """Another's result and none at all are answered alike, byte for byte, and nothing changes."""
    other = service.ids[2]
    for status, answer in (
        service.annotate("ann", other, "tag", "mine"),
        service.delete("ann", other),
    ):
        missing = service.annotate("ann", _NOBODYS, "tag", "mine")
        assert (status, str(answer).replace(other, _NOBODYS)) == (404, str(missing[1]))
    with Store(service.address) as store:
        assert store.journal() == []
        assert store.count(Search()) == 4


@pytest.mark.parametrize("user", ["reader", "nobody"])
def test_reading_is_not_enough_to_change_anything(service: _Service, user: str) -> None:
    """The answer names the right that is missing."""
    first = service.ids[0]
    status, answer = service.annotate(user, first, "tag", "mine")
    if user == "reader":
        assert (status, answer["error"]) == (
            403,
            "reader may not create benchmarkruns in namespace a.",
        )
        assert service.delete(user, first)[1]["error"].startswith("reader may not delete")
    else:
        assert status == 404
    with Store(service.address) as store:
        assert store.journal() == []


def test_results_of_a_namespace_that_is_gone_need_the_right_everywhere(service: _Service) -> None:
    """Also once a namespace of that name exists again."""
    gone = service.ids[3]
    service.authority.rights |= {("carol", "get", ""), ("carol", "create", "gone")}
    service.authority.uids["gone"] = "uid-new"
    status, answer = service.annotate("carol", gone, "tag", "mine")
    assert (status, answer["error"]) == (
        403,
        "carol may not create benchmarkruns in all namespaces.",
    )
    assert service.annotate("root", gone, "tag", "kept")[0] == 201


def test_who_may_delete_runs_deletes_their_results(service: _Service) -> None:
    """With all that was added to them."""
    first = service.ids[0]
    assert service.annotate("ann", first, "tag", "baseline")[0] == 201
    assert service.delete("ann", first) == (200, {"id": first})
    assert service.delete("ann", first)[0] == 404
    with Store(service.address) as store:
        assert store.journal() == []
        assert store.count(Search()) == 3


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"", {}, 400),
        (b"[]", {}, 400),
        (b'{"action": "tag"}', {}, 400),
        (b'{"action": "tag", "text": "a\\u0000b"}', {}, 400),
        (b'{"action": "tag", "text": "a", "by": "root"}', {}, 400),
        (b'{"action": "explode", "text": "a"}', {}, 400),
        (b'{"action": "retract", "text": " "}', {}, 400),
        (b'{"action": "retract", "text": "' + b"a" * 1001 + b'"}', {}, 400),
        (b'{"action": "accept-change", "text": "yes"}', {}, 400),
        (json.dumps({"action": "accept-change", "text": _UNREADABLE}).encode(), {}, 400),
        (b'{"action": "tag", "text": "' + b"a" * 40_000 + b'"}', {}, 400),
        (b'{"action": "tag", "text": "a"}', {"content-type": "text/plain"}, 415),
        (b'{"action": "tag", "text": "a"}', {"content-type": ""}, 415),
    ],
)
def test_what_cannot_be_added_is_refused_with_a_sentence(
    service: _Service, body: bytes, headers: Mapping[str, str], status: int
) -> None:
    """And nothing is kept; text/plain is what a page of another site could send."""
    found, answer = service.post("ann", service.ids[0], body, headers)
    assert (found, answer["error"][-1]) == (status, ".")
    with Store(service.address) as store:
        assert store.journal() == []


def test_an_operator_changes_nothing(service: _Service) -> None:
    """Its token delivers documents, and is refused here."""
    pods = cluster_client(service.address, service.authority, None)
    headers = {"Authorization": "Bearer token"}
    for answer in (
        pods.post(f"{API}/results/{service.ids[0]}/journal", headers=headers, json={}),
        pods.delete(f"{API}/results/{service.ids[0]}", headers=headers),
    ):
        assert answer.status_code == 403


def test_an_export_of_all_parts_is_what_the_caller_may_read(
    service: _Service, tmp_path: Path
) -> None:
    """Documents with their journal, in parts; imported, they answer as the service does."""
    for user, id_ in (("ann", service.ids[0]), ("bob", service.ids[2])):
        assert service.annotate(user, id_, "tag", f"of-{user}")[0] == 201
    lines: list[str] = []
    last = ""
    while part := service.get("ann", f"/archive?limit=1&after={last}").decode().splitlines():
        lines += part
        last = json.loads(part[0])["document"]
    assert "of-bob" not in "".join(lines)
    limited = Store(service.address, lambda: frozenset({"uid-a"}))
    with Store(str(tmp_path / "other.db")) as other, limited:
        assert all(each.is_new for each in import_archive(other, lines, source="x"))
        assert len(other.journal()) == 1
        assert _unnumbered(other) == _unnumbered(limited)


def _unnumbered(store: Store) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(answers(store))
    return [{name: value for name, value in row.items() if name != "number"} for row in rows]


def test_pages_have_the_costs_of_the_service_s_price_list(service: _Service) -> None:
    """As those of `results serve --prices` have."""
    page = service.client.get(f"{EXPLORER}/", headers=caller("ann"))
    assert "EUR/1M" in page.text


def test_entries_of_the_journal_are_found_by_the_results_they_belong_to(service: _Service) -> None:
    """A condition narrows them."""
    with Store(service.address) as store:
        for id_ in service.ids[:2]:
            store.note(id_, JournalRow(NOW, "ann", "tag", id_[:8]))
    found = json.loads(service.get("ann", f"/journal?where=id%3D{service.ids[1]}"))
    assert [each["id"] for each in found] == [service.ids[1]]
