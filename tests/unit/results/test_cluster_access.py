"""In a cluster the service trusts the API server's word alone, and closes when that is missing."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from inferometer_api.results.service_paths import (
    EXPLORER,
    SERVICE_ROOT,
    ingest_path,
    suite_ingest_path,
    suite_page,
)
from inferometer_results.cluster.authority import ClusterAuthority
from inferometer_results.service.access.front_proxy import (
    FrontProxy,
    FrontProxyError,
    Identity,
    proxied_identity,
    read_front_proxy,
)
from inferometer_results.service.access.reviews import (
    RunAccess,
    access_review,
    is_allowed,
    token_identity,
)
from inferometer_results.service.api.ingest import RateLimit
from inferometer_results.store.index_rows import Origin
from inferometer_results.store.node_characteristics import keep_measurement
from inferometer_results.store.store import Store
from inferometer_results.store.suite_outcomes import keep_outcome
from support.cluster_service import OPERATOR, PROXY, ScriptedAuthority, caller, cluster_client
from support.node_documents import a_node_document
from support.stored_results import a_document
from support.suite_results import SUITE, a_suite_outcome, a_suite_result

TOKEN = "a-token-of-ours"  # noqa: S105 - for tests only
RESULTS = f"{EXPLORER}/api/v1/results"
JSON_OF_ANN = caller("ann", **{"Content-Type": "application/json"})
CONFIG_MAP = {
    "requestheader-client-ca-file": "-----BEGIN CERTIFICATE-----",
    "requestheader-allowed-names": '["front-proxy-client"]',
    "requestheader-username-headers": '["X-Remote-User"]',
    "requestheader-uid-headers": '["X-Remote-Uid"]',
    "requestheader-group-headers": '["X-Remote-Group"]',
    "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
}


@pytest.fixture
def authority() -> ScriptedAuthority:
    """Let ann run in a, and the operator serve it; another account has the rights to do so."""
    another = "system:serviceaccount:bench:default"
    rights = {("ann", "get", "a"), ("ann", "create", "a")}
    rights |= {(account, "patch", "a") for account in (OPERATOR, another)}
    return ScriptedAuthority(
        rights, {"a": "uid-a", "b": "uid-b"}, {TOKEN: OPERATOR, "another": another}
    )


def test_the_headers_name_the_caller() -> None:
    """User, UID, groups and extra are taken as the API server writes them; case is left aside."""
    proxy = read_front_proxy({"data": CONFIG_MAP})
    headers = [
        (b"x-remote-user", b"ann"),
        (b"x-remote-uid", b"42"),
        (b"x-remote-group", b"team-a"),
        (b"x-remote-group", b"system:authenticated"),
        (b"x-remote-extra-acme.com%2fproject", b"one"),
        (b"x-remote-extra-acme.com%2fproject", b"two"),
        (b"x-forwarded-for", b"192.0.2.1"),
    ]
    assert proxied_identity(headers, proxy) == Identity(
        "ann", "42", ("team-a", "system:authenticated"), (("acme.com/project", ("one", "two")),)
    )
    assert proxied_identity(headers[1:], proxy) is None
    named = [(b"x-remote-user", "jürgen".encode()), (b"x-remote-group", "Prüfstand".encode())]
    assert proxied_identity([(b"user-agent", b"\xff"), *named], proxy) == Identity(
        "jürgen", groups=("Prüfstand",)
    )
    assert proxied_identity([*named, (b"x-remote-group", b"\xff")], proxy) is None
    with pytest.raises(FrontProxyError, match="too many"):
        proxied_identity([headers[0], *[(b"x-remote-group", b"g")] * 1001], proxy)


def test_a_uid_that_the_api_server_does_not_guard_is_not_believed() -> None:
    """Old API servers pass on a UID header that the client sent: it counts only if published."""
    published = {key: value for key, value in CONFIG_MAP.items() if "uid" not in key}
    headers = [(b"x-remote-user", b"ann"), (b"x-remote-uid", b"0")]
    assert proxied_identity(headers, read_front_proxy({"data": published})) == Identity("ann")


@pytest.mark.parametrize(
    "missing", ["requestheader-client-ca-file", "requestheader-username-headers"]
)
def test_without_what_the_api_server_publishes_nothing_starts(missing: str) -> None:
    """A cluster without the aggregation layer is a sentence, not an open door."""
    data = {key: value for key, value in CONFIG_MAP.items() if key != missing}
    with pytest.raises(FrontProxyError):
        read_front_proxy({"data": data})


@pytest.mark.parametrize(
    ("names", "peer", "trusted"),
    [
        ({"front"}, "front", True),
        ({"front"}, "other", False),
        ({"front"}, "", False),
        ({"front"}, None, False),
        (set(), "any", True),
        (set(), None, False),
    ],
)
def test_a_front_proxy_is_known_by_its_certificate(
    names: set[str], peer: str | None, *, trusted: bool
) -> None:
    """The name must be allowed; with no names, any that the authority signed."""
    assert FrontProxy("", frozenset(names), (), (), (), ()).trusts(peer) is trusted


@pytest.mark.parametrize("peer", [None, "another-client", ""])
def test_headers_without_the_certificate_are_ignored(
    tmp_path: Path, authority: ScriptedAuthority, peer: str | None
) -> None:
    """A pod that reaches the service and writes the headers of ann has no name."""
    client = cluster_client(str(tmp_path / "r.db"), authority, peer)
    assert client.get(RESULTS, headers=caller("ann")).status_code == 401
    pushed = client.post(f"{EXPLORER}{ingest_path('a')}", headers=JSON_OF_ANN, content=b"{}")
    assert pushed.status_code == 401


def test_only_an_operator_uses_a_token_here_and_only_to_deliver(
    tmp_path: Path, authority: ScriptedAuthority
) -> None:
    """Tokens of other audiences are unknown, other accounts forbidden, and none of them reads."""
    client = cluster_client(str(tmp_path / "r.db"), authority, None)
    push = f"{EXPLORER}{ingest_path('a')}"

    def sent(token: str, path: str = push) -> int:
        headers = {"Authorization": f"Bearer {token}"}
        return client.post(path, headers=headers, content=a_document(1)).status_code

    assert sent("for-the-api-server") == 401
    assert sent("another") == 403
    assert sent(TOKEN, f"{EXPLORER}{ingest_path('b')}") == 403
    assert sent(TOKEN) == 201
    assert sent(TOKEN) == 200
    headers = {"Authorization": f"Bearer {TOKEN}"}
    assert client.get(RESULTS, headers=headers).status_code == 403


def test_what_a_person_pushes_is_marked_as_theirs(
    tmp_path: Path, authority: ScriptedAuthority
) -> None:
    """It never passes for a run of the cluster, and the operator's own copy is another result."""
    address = str(tmp_path / "r.db")
    client = cluster_client(address, authority)
    push, document = f"{EXPLORER}{ingest_path('a')}", a_document(1)
    first = client.post(push, headers=JSON_OF_ANN, content=document)
    assert first.status_code == 201
    pods = cluster_client(address, authority, None)
    other = pods.post(push, headers={"Authorization": f"Bearer {TOKEN}"}, content=document)
    assert other.status_code == 201
    found = client.get(RESULTS, headers=caller("ann")).json()["items"]
    assert {(each["source"], each["cluster_uid"]) for each in found} == {
        ("user", ""),
        ("operator", "cluster-1"),
    }
    assert {each["namespace_uid"] for each in found} == {"uid-a"}


def test_only_an_operator_sends_outcomes_of_suites(
    tmp_path: Path, authority: ScriptedAuthority
) -> None:
    """A person could make a gate pass; those who may read the namespace see it."""
    address = str(tmp_path / "r.db")
    people, pods = cluster_client(address, authority), cluster_client(address, authority, None)
    push, outcome = f"{EXPLORER}{suite_ingest_path('a')}", a_suite_outcome("night", "FAIL")
    assert people.post(push, headers=JSON_OF_ANN, content=outcome).status_code == 403
    headers = {"Authorization": f"Bearer {TOKEN}"}
    assert pods.post(push, headers=headers, content=b"{}").status_code == 422
    assert pods.post(push, headers=headers, content=outcome).status_code == 201
    assert pods.post(push, headers=headers, content=outcome).status_code == 200
    other = f"{EXPLORER}{suite_ingest_path('b')}"
    assert pods.post(other, headers=headers, content=outcome).status_code == 403
    page = people.get(f"{EXPLORER}{suite_page(SUITE, 'a/night')}", headers=caller("ann"))
    assert "<b>FAIL</b>" in page.text


def test_labels_that_a_suite_cannot_have_are_not_taken_from_a_person(
    tmp_path: Path, authority: ScriptedAuthority
) -> None:
    """The sentence names the label. An operator's result is kept: its run has been measured."""
    address = str(tmp_path / "results.db")
    document = json.loads(a_suite_result(1, "night"))
    document["run"]["metadata"]["labels"]["inferometer.dev/suite-block"] = "abc"
    content, push = json.dumps(document).encode(), f"{EXPLORER}{ingest_path('a')}"
    person = cluster_client(address, authority)
    answer = person.post(push, headers=JSON_OF_ANN, content=content)
    assert answer.status_code == 400
    assert answer.json()["error"] == (
        "The document cannot be kept. Its label inferometer.dev/suite-block is 'abc', and not the "
        "number of a block."
    )
    pods = cluster_client(address, authority, None)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    assert pods.post(push, headers=headers, content=content).status_code == 201


def test_who_may_not_create_runs_may_not_push(tmp_path: Path, authority: ScriptedAuthority) -> None:
    """Whether the namespace exists shows only to those who may push there."""
    client = cluster_client(str(tmp_path / "r.db"), authority)
    answers = [
        client.post(f"{EXPLORER}{ingest_path(name)}", headers=JSON_OF_ANN, content=b"{}")
        for name in ("b", "missing")
    ]
    assert [each.status_code for each in answers] == [403, 403]
    authority.rights.add(("ann", "create", "missing"))
    path = f"{EXPLORER}{ingest_path('missing')}"
    assert client.post(path, headers=JSON_OF_ANN, content=b"{}").status_code == 404


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        ({}, b"x" * (8 * 2**20 + 1), 413),
        ({}, b'{"a":' + b"{" * 90_000, 413),
        ({}, b"no document", 422),
        ({"Content-Encoding": "gzip"}, b"no gzip", 400),
        ({"Content-Encoding": "br"}, b"", 400),
    ],
)
def test_a_document_that_is_none_or_too_large_is_refused(
    tmp_path: Path,
    authority: ScriptedAuthority,
    headers: dict[str, str],
    body: bytes,
    status: int,
) -> None:
    """The answer is a sentence, and nothing is kept."""
    client = cluster_client(str(tmp_path / "r.db"), authority)
    path = f"{EXPLORER}{ingest_path('a')}"
    answer = client.post(path, headers={**JSON_OF_ANN, **headers}, content=body)
    assert answer.status_code == status
    assert answer.json()["error"]
    assert client.get(RESULTS, headers=caller("ann")).json()["total"] == 0


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", None])
def test_a_person_says_that_a_document_is_json(
    tmp_path: Path, authority: ScriptedAuthority, kind: str | None
) -> None:
    """A page of another site can send these types, and a body without any."""
    client = cluster_client(str(tmp_path / "r.db"), authority)
    headers = caller("ann", **({"Content-Type": kind} if kind else {}))
    answer = client.post(f"{EXPLORER}{ingest_path('a')}", headers=headers, content=a_document(1))
    assert (answer.status_code, answer.json()) == (415, {"error": "Send application/json."})
    assert client.get(RESULTS, headers=caller("ann")).json()["total"] == 0


@pytest.mark.parametrize("origin", ["https://evil.example", "https://127.0.0.1", "null"])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "OPTIONS"])
def test_a_web_page_gets_no_answer(
    tmp_path: Path, authority: ScriptedAuthority, method: str, origin: str
) -> None:
    """Its browser may have the certificate by which the API server knows the user."""
    client = cluster_client(str(tmp_path / "r.db"), authority)
    path = RESULTS if method == "GET" else f"{EXPLORER}{ingest_path('a')}"
    content = a_document(1) if method == "POST" else None
    headers = {**JSON_OF_ANN, "Origin": origin}
    answer = client.request(method, path, headers=headers, content=content)
    assert (answer.status_code, answer.json()["kind"]) == (403, "Status")
    assert client.get(RESULTS, headers=caller("ann")).json()["total"] == 0


@pytest.mark.parametrize("path", ["/api/v1/results", "/", "/results/0123", "/compare"])
def test_an_api_server_that_does_not_answer_closes_the_service(
    tmp_path: Path, authority: ScriptedAuthority, path: str
) -> None:
    """Nothing is shown as long as it is not known who may read it."""
    client = cluster_client(str(tmp_path / "r.db"), authority)
    authority.fault = "The API server is away."
    answer = client.get(f"{EXPLORER}{path}", headers=caller("ann"))
    assert (answer.status_code, answer.json()["message"]) == (503, "The API server is away.")
    authority.fault = ""
    assert client.get(RESULTS, headers=caller("ann")).status_code == 200


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS"])
def test_nothing_else_is_changed(tmp_path: Path, authority: ScriptedAuthority, method: str) -> None:
    """By any caller."""
    client = cluster_client(str(tmp_path / "r.db"), authority)
    assert client.request(method, RESULTS, headers=caller("ann")).status_code == 405
    assert client.post(RESULTS, headers=JSON_OF_ANN, content=b"{}").status_code == 405


def test_a_method_that_an_address_does_not_take_is_named(
    tmp_path: Path, authority: ScriptedAuthority
) -> None:
    """To programs as JSON, to people as a page; the address is there."""
    client = cluster_client(str(tmp_path / "r.db"), authority)
    refused = client.delete(RESULTS, headers=caller("ann"))
    assert refused.json()["error"].startswith("This address does not take DELETE:")
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET")
    page = client.post(f"{EXPLORER}/models", headers=JSON_OF_ANN, content=b"{}")
    assert (page.status_code, "does not take POST:" in page.text) == (405, True)


def test_answers_are_secured(tmp_path: Path, authority: ScriptedAuthority) -> None:
    """Those that refuse too."""
    client = cluster_client(str(tmp_path / "r.db"), authority)
    for headers in (caller("ann"), {}):
        answer = client.get(f"{EXPLORER}/", headers=headers)
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "private, no-cache"


def test_the_group_is_discovered(tmp_path: Path, authority: ScriptedAuthority) -> None:
    """The API server finds the version and its resource; what is below it has no other path."""
    client = cluster_client(str(tmp_path / "r.db"), authority)
    found = client.get(SERVICE_ROOT, headers=caller("ann")).json()
    assert found["kind"] == "APIResourceList"
    assert [each["name"] for each in found["resources"]] == ["explorers/proxy"]
    for path in ("/", "/metrics", "/healthz", "/openapi/v2", f"{EXPLORER}x/api/v1/results"):
        answer = client.get(path, headers=caller("ann"))
        assert (answer.status_code, answer.json()["kind"]) == (404, "Status")


def test_a_caller_who_sends_too_much_waits_and_others_do_not() -> None:
    """A burst is taken at once, then so many a second."""
    now = [0.0]
    limit = RateLimit(lambda: now[0], burst=3, per_second=2.0)
    assert [limit.takes("ann") for _ in range(4)] == [True, True, True, False]
    assert limit.takes("bob")
    now[0] = 0.5
    assert [limit.takes("ann") for _ in range(2)] == [True, False]


def test_reviews_carry_the_whole_identity() -> None:
    """Authorisers may decide by UID, groups or extra; a token of another audience names no one."""
    identity = Identity("ann", "42", ("team-a",), (("scopes", ("x",)),))
    spec = access_review(identity, RunAccess("get", "a"))["spec"]
    attributes = spec.pop("resourceAttributes")
    assert spec == {"user": "ann", "uid": "42", "groups": ["team-a"], "extra": {"scopes": ["x"]}}
    assert (attributes["verb"], attributes["resource"]) == ("get", "benchmarkruns")
    assert not is_allowed({})
    assert not is_allowed({"status": {"allowed": True, "denied": True}})
    user = {"user": {"username": "ann"}, "authenticated": True}
    assert token_identity({"status": user}) is None
    assert token_identity({"status": {**user, "audiences": ["https://kubernetes"]}}) is None
    for_us = {**user, "audiences": ["results.inferometer.dev"]}
    assert token_identity({"status": for_us}) == Identity("ann")
    assert PROXY.trusts("front-proxy-client")


class _ApiServer:
    """An API server with two namespaces, in which ann may read the first."""

    async def post(self, _: str, review: dict[str, Any]) -> dict[str, Any]:
        """Answer a review."""
        namespace = review["spec"]["resourceAttributes"]["namespace"]
        return {"status": {"allowed": namespace == "a"}}

    async def namespace_uids(self) -> dict[str, str]:
        """Return both."""
        return {"a": "uid-a", "b": "uid-b"}


@pytest.mark.parametrize(
    "keep",
    [
        lambda store, origin: keep_outcome(store, a_suite_outcome("first", "CouldNotRun"), origin),
        lambda store, origin: keep_measurement(
            store, a_node_document().model_dump_json(by_alias=True).encode(), origin
        ),
    ],
    ids=["outcome of a suite", "measurement of a node"],
)
def test_a_namespace_without_a_result_is_readable(
    tmp_path: Path, keep: Callable[[Store, Origin], object]
) -> None:
    """No run was measured there, and a user who may read it sees what else is stored."""
    with Store(str(tmp_path / "results.db")) as store:
        for name in ("a", "b"):
            keep(
                store,
                Origin("operator", "2026-02-01T00:00:00.000Z", "cluster", name, f"uid-{name}"),
            )
        authority = ClusterAuthority(_ApiServer(), store)  # type: ignore[arg-type]
        assert asyncio.run(authority.readable(Identity("ann"))) == frozenset({"uid-a"})
