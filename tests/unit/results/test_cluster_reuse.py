"""An operator finds stored results for its suites, and reads nothing else."""

import json
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from inferometer_api.results.service_paths import EXPLORER, ingest_path, reuse_path
from inferometer_api.suite.reuse import ReuseAnswer
from inferometer_results.store.query import Search
from inferometer_results.store.store import Store
from support.cluster_service import OPERATOR, ScriptedAuthority, caller, cluster_client
from support.stored_results import a_document

TOKEN = "a-token-of-ours"  # noqa: S105 - for tests only
HEADERS = {"Authorization": f"Bearer {TOKEN}"}
NOW, BEFORE = "2026-02-02T00:00:00.001Z", "2026-02-01T00:00:00.000Z"


@pytest.fixture
def authority() -> ScriptedAuthority:
    """Let the operator serve the namespaces a and b, and ann run and read in a."""
    rights = {(OPERATOR, "patch", "a"), (OPERATOR, "patch", "b")}
    rights |= {("ann", "get", "a"), ("ann", "create", "a")}
    return ScriptedAuthority(rights, {"a": "uid-a", "b": "uid-b"}, {TOKEN: OPERATOR})


@pytest.fixture
def pods(tmp_path: Path, authority: ScriptedAuthority) -> TestClient:
    """Return a client with the operator's way to the service."""
    return cluster_client(str(tmp_path / "r.db"), authority, None)


@pytest.fixture
def people(tmp_path: Path, authority: ScriptedAuthority) -> TestClient:
    """Return a client with the way of people, over the API server."""
    return cluster_client(str(tmp_path / "r.db"), authority)


def kept(pods: TestClient, folder: Path, namespace: str = "a", **changed: Any) -> dict[str, Any]:
    """Deliver a VALID result; return its row."""
    document = json.loads(a_document(1))
    for scenario in document["scenarios"]:
        state = changed.get("verdict", "VALID")
        scenario["verdict"] = {"state": state, "reasons": [], "cautions": []}
    document["outcome"]["state"] = "Complete"
    document["run"]["spec"]["model"]["uri"] = changed.get("uri", "https://models.test/m.onnx")
    settings = document["environment"]["server"].setdefault("settings", {})
    settings["external_data_sha256"] = json.dumps(changed.get("data", {}))
    document["runId"] = f"run-{changed}"
    document["environment"]["images"] = {
        name: f"registry.test/{name}@sha256:{letter * 64}"
        for name, letter in (("server", "a"), ("loadgen", "b"))
    }
    content = json.dumps(document).encode()
    answer = pods.post(f"{EXPLORER}{ingest_path(namespace)}", headers=HEADERS, content=content)
    assert answer.status_code == 201, answer.text
    with Store(str(folder / "r.db")) as store:
        (row,) = store.find(Search(f'id="{answer.json()["id"]}"'))
        images = document["environment"]["images"].values()
        return row | {"images": [each.rpartition("@")[2] for each in images]}


def found(pods: TestClient, row: dict[str, Any], namespace: str = "a", **changed: Any) -> list[str]:
    """Return the IDs of the results that are equal to one, with members of the query replaced."""
    query = {
        "specDigest": row["spec_digest"],
        "node": row["node"],
        "images": row["images"],
        "modelSha256": row["model_sha256"],
        "most": 3,
        **changed,
    }
    before = query.pop("before", NOW)
    body = json.dumps({"storedBefore": before, "queries": [query]})
    path = f"{EXPLORER}{reuse_path(namespace)}"
    answer = pods.post(path, headers=HEADERS, content=body.encode())
    assert answer.status_code == 200, answer.text
    ((results),) = ReuseAnswer.read(answer.json()).results
    return [each.id for each in results]


def test_an_equal_result_is_found_with_its_figures(pods: TestClient, tmp_path: Path) -> None:
    """Spec, model, images and node are equal; without a checksum the images show the model."""
    row = kept(pods, tmp_path)
    assert found(pods, row) == [row["id"]]
    assert found(pods, row, modelSha256=None) == [row["id"]]
    body = {
        "storedBefore": NOW,
        "queries": [
            {
                "specDigest": row["spec_digest"],
                "node": row["node"],
                "images": row["images"],
            }
        ],
    }
    answer = pods.post(
        f"{EXPLORER}{reuse_path('a')}", headers=HEADERS, content=json.dumps(body).encode()
    )
    (result,) = ReuseAnswer.read(answer.json()).results[0]
    headline = next(each for each in row["measurements"] if each["headline"])
    summary = next(each for each in result.scenarios if each.name == headline["scenario"])
    assert summary.p50_microseconds == round(headline["p50_nanoseconds"] / 1000)
    assert (result.run, result.started_at) == (row["name"], row["started_at"])


def test_a_result_of_a_model_with_external_data_is_equal_to_none(
    pods: TestClient, tmp_path: Path
) -> None:
    """The checksum of its graph leaves the weights out; those of the zoo never change."""
    data = {"m.onnx.data": "c" * 64}
    whole = kept(pods, tmp_path)
    split = kept(pods, tmp_path, uri="s3://models/m.onnx", data=data)
    zoo = kept(pods, tmp_path, uri="zoo://classification/resnet50", data=data)
    assert found(pods, whole) == [whole["id"]]
    assert found(pods, split) == []
    assert found(pods, zoo) == [zoo["id"]]


@pytest.mark.parametrize(
    "changed",
    [
        {"specDigest": "0" * 16},
        {"node": "another"},
        {"images": ["sha256:" + "9" * 64]},
        {"modelSha256": "9" * 64},
        {"before": BEFORE},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_whatever_differs_nothing_is_found(
    pods: TestClient, tmp_path: Path, changed: dict[str, Any]
) -> None:
    """Also a result that was stored after the suite began: it may be the suite's own."""
    assert found(pods, kept(pods, tmp_path), **changed) == []


def test_results_that_are_not_to_be_trusted_are_not_found(
    pods: TestClient, people: TestClient, tmp_path: Path
) -> None:
    """INVALID, retracted, pushed by a person, or of another namespace."""
    row = kept(pods, tmp_path)
    assert found(pods, row, namespace="b") == []
    assert found(pods, kept(pods, tmp_path, verdict="INVALID")) == [row["id"]]
    pushed = people.post(
        f"{EXPLORER}{ingest_path('a')}",
        headers=caller("ann", **{"Content-Type": "application/json"}),
        content=a_document(1),
    )
    assert pushed.status_code == 201
    assert found(pods, row) == [row["id"]]
    retraction = {"action": "retract", "text": "The fan was off."}
    journal = f"{EXPLORER}/api/v1/results/{row['id']}/journal"
    assert people.post(journal, headers=caller("ann"), json=retraction).status_code == 201
    assert found(pods, row) == []


def test_only_an_operator_that_serves_the_namespace_finds_anything(
    pods: TestClient, people: TestClient, authority: ScriptedAuthority
) -> None:
    """With a token of our audience; people have the explorer."""
    path, body = f"{EXPLORER}{reuse_path('a')}", {"storedBefore": NOW, "queries": []}
    assert pods.post(path, headers=HEADERS, json=body).json() == {"results": []}
    assert people.post(path, headers=caller("ann"), json=body).status_code == 403
    other = {"Authorization": "Bearer for-the-api-server"}
    assert pods.post(path, headers=other, json=body).status_code == 401
    authority.rights.discard((OPERATOR, "patch", "b"))
    refused = pods.post(f"{EXPLORER}{reuse_path('b')}", headers=HEADERS, json=body)
    assert refused.status_code == 403
    assert pods.post(path, headers=HEADERS, json={"queries": []}).status_code == 422
