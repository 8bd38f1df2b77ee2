"""People push results, open pages, and see nothing of a namespace that is gone."""

import http.client
import json
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from inferometer_api.results.service_paths import EXPLORER, ingest_path
from inferometer_cli.exits import ExitCode
from inferometer_cli.local import measurement
from inferometer_results.store.query import Search
from inferometer_results.store.store import Store
from inferometer_results.store.transfer import import_archive
from support.api_client import Api
from support.cluster.control_plane import ControlPlane
from support.command import Command
from support.history_results import NODE, HistoryMachine, a_slower_spec
from support.results_cluster import PLUGIN, ResultsCluster, results_cluster
from support.results_service import grant
from support.stored_results import a_document
from support.waiting import killed_at_deadline, reply_of, wait_until

_CAROL = {"kind": "User", "name": "carol", "apiGroup": "rbac.authorization.k8s.io"}


@pytest.fixture(scope="module")
def cluster(
    api_server: ControlPlane, api: Api, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ResultsCluster]:
    """Start the service, with a result in each of two namespaces."""
    with results_cluster(api_server, api, tmp_path_factory.mktemp("service")) as made:
        yield made


def test_a_push_needs_the_right_to_create_runs(cluster: ResultsCluster, tmp_path: Path) -> None:
    """Reading is not enough."""
    file = tmp_path / "result.json"
    file.write_bytes(a_document(3))
    for login, namespace in (("token", cluster.one), ("certificate", cluster.one)):
        refused = cluster.plugin(login, "results", "push", str(file), "--to", namespace)
        assert refused.returncode == 2
        assert "may not create benchmarkruns" in refused.stderr


def test_a_namespace_that_was_made_anew_has_no_old_results(cluster: ResultsCluster) -> None:
    """Its new owner reads nothing of the old one; a cluster-wide right still does."""
    name = "made-anew"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    reader = {"kind": "ServiceAccount", "name": "reader", "namespace": cluster.one}
    cluster.api.ask("POST", "/api/v1/namespaces", body)
    path = f"{EXPLORER}{ingest_path(name)}"
    cluster.api.ask("POST", path, a_document(4).decode())
    grant(cluster.api, name, reader, "get")

    def seen() -> int:
        return len(json.loads(cluster.plugin("token", "results", "list", "--json").stdout))

    wait_until(lambda: seen() == 2, "the result of the new namespace")
    cluster.api.ask("DELETE", f"/api/v1/namespaces/{name}")
    wait_until(lambda: _is_gone(cluster.plane, name), "the end of the namespace")
    cluster.api.ask("POST", "/api/v1/namespaces", body)
    grant(cluster.api, name, reader, "get")
    wait_until(lambda: seen() == 1, "the end of the old results")
    found = cluster.api.ask("GET", f"{EXPLORER}/api/v1/results")
    assert found["total"] == 3


def test_people_annotate_and_export_with_their_rights(
    cluster: ResultsCluster, tmp_path: Path
) -> None:
    """Through the API server; what a login may not read or change is refused with the reason."""
    theirs, hers = cluster.ids
    tag = ("results", "tag", hers[:12], "baseline")
    assert cluster.plugin("certificate", *tag).returncode == 0
    listed = cluster.plugin("certificate", "results", "list", "--where", "tag=baseline", "--json")
    assert [each["id"] for each in json.loads(listed.stdout)] == [hers]
    for login, words, sentence in (
        ("token", ("tag", theirs, "mine"), "reader may not create benchmarkruns"),
        ("token", ("retract", hers, "--reason", "busy"), "No result has an ID that begins with"),
        ("certificate", ("delete", hers), "carol may not delete benchmarkruns"),
        ("certificate", ("tag", hers, ""), "A tag has 1 to 63"),
    ):
        refused = cluster.plugin(login, "results", *words)
        assert (refused.returncode, sentence in refused.stderr) == (2, True), refused.stderr
    archive = tmp_path / "all.jsonl"
    exported = cluster.plugin("certificate", "results", "export", "--all", "-o", str(archive))
    assert exported.returncode == 0, exported.stderr
    with Store(str(tmp_path / "copy.db")) as store:
        lines = archive.read_text().splitlines()
        assert all(each.is_new for each in import_archive(store, lines, source="archive"))
        (found,) = store.find(Search("tag=baseline"))
        assert (found["id"], found["source"]) == (hers, "user")
    figures = cluster.plugin("token", "results", "export")
    assert theirs in figures.stdout
    assert hers not in figures.stdout
    trend = cluster.plugin("certificate", "results", "trend", "--figure", "p99")
    assert trend.returncode == 0, trend.stderr
    grant(cluster.api, cluster.two, _CAROL, "delete")
    file = tmp_path / "result.json"
    file.write_bytes(a_document(7))
    pushed = cluster.plugin("certificate", "results", "push", str(file), "--to", cluster.two)
    wait_until(
        lambda: (
            cluster.plugin("certificate", "results", "delete", pushed.stdout.strip()).returncode
            == 0
        ),
        "the right to delete",
    )


def test_a_candidate_is_confirmed_in_the_service(
    cluster: ResultsCluster,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """The series is read from the service, and keeps what the interleaved runs showed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(socket, "gethostname", lambda: NODE)
    machine = HistoryMachine(12.0)
    monkeypatch.setattr(measurement, "measure", machine.measure)
    path = f"{EXPLORER}{ingest_path(cluster.two)}"
    ids = [cluster.api.ask("POST", path, json.dumps(each))["id"] for each in a_slower_spec()]
    inferometer = Command(monkeypatch, capsys)
    login = ("--kubeconfig", str(cluster.kubeconfigs["certificate"]), "--cluster")
    ended = inferometer("results", "confirm", ids[20][:12], "--rounds", "4", *login)
    assert ended.code == ExitCode.SLOWER, ended.stderr
    assert len(machine.measured) == 8
    trends = json.loads(inferometer("results", "trend", "--json", *login).stdout)
    (change,) = (each for trend in trends for each in trend["changes"])
    assert (change["state"], change["finding"]["rounds"]) == ("accepted", 4)


def test_the_pages_open_on_loopback_with_the_users_rights(cluster: ResultsCluster) -> None:
    """`web` answers a browser of this machine, and no page of another site."""
    with _web(cluster, "token") as address:
        status, headers, text = _answer(address, f"/results/{cluster.ids[0]}")
        assert status == 200
        # The API server in between has changed no link.
        assert f'href="/api/v1/results/{cluster.ids[0]}/run"' in text
        assert headers["content-type"].startswith("text/html")
        assert "default-src 'none'" in headers["content-security-policy"]
        for path, sent, method, refused in (
            (f"/results/{cluster.ids[1]}", {}, "GET", 404),
            ("/", {"Host": "attacker.example"}, "GET", 421),
            ("/", {"Origin": "https://attacker.example"}, "GET", 403),
            (ingest_path(cluster.one), {}, "POST", 405),
            ("/../../../../../../api/v1/namespaces", {}, "GET", 400),
            ("/%2e%2e/x", {}, "GET", 400),
        ):
            assert _answer(address, path, sent, method)[0] == refused, path


def _answer(
    address: str, path: str, headers: Mapping[str, str] | None = None, method: str = "GET"
) -> tuple[int, dict[str, str], str]:
    """Return status, headers and text of an answer."""
    connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=60)
    try:
        connection.request(method, path, headers=dict(headers or {}))
        answer = reply_of(connection, f"{method} {path}")
        found = {name.lower(): value for name, value in answer.getheaders()}
        return answer.status, found, answer.read().decode()
    finally:
        connection.close()


@contextmanager
def _web(cluster: ResultsCluster, login: str) -> Iterator[str]:
    """Yield the address of `kubectl inferometer web`."""
    process = subprocess.Popen(
        [PLUGIN, "web", "--port", "0", "--kubeconfig", str(cluster.kubeconfigs[login])],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        with killed_at_deadline(process, "the address of the results"):
            line = process.stderr.readline()
            assert line
        yield line.split()[4].rstrip("/")
    finally:
        process.terminate()
        process.communicate(timeout=60)


def _is_gone(plane: ControlPlane, name: str) -> bool:
    return not plane.kubectl("get", "namespace", name, "--ignore-not-found", "-o", "name").strip()
