"""The results service behind a real API server: who may read and deliver."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from inferometer_api.results.service_paths import EXPLORER
from support.aggregation_certificates import FRONT_PROXY, OTHER_CLIENT
from support.api_client import Api
from support.cluster.control_plane import ControlPlane
from support.results_cluster import OPERATOR, ResultsCluster, results_cluster
from support.results_service import account_token


@pytest.fixture(scope="module")
def cluster(
    api_server: ControlPlane, api: Api, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ResultsCluster]:
    """Start the service, with a result in each of two namespaces."""
    with results_cluster(api_server, api, tmp_path_factory.mktemp("service")) as made:
        yield made


@pytest.mark.parametrize(("login", "own"), [("token", 0), ("exec", 0), ("certificate", 1)])
def test_a_user_of_each_kind_sees_the_results_of_the_own_namespace_alone(
    cluster: ResultsCluster, login: str, own: int
) -> None:
    """Whatever the API server authenticates by; what is another's does not exist."""
    listed = cluster.plugin(login, "results", "list", "--json")
    assert listed.returncode == 0, listed.stderr
    (found,) = json.loads(listed.stdout)
    assert (found["id"], found["source"]) == (cluster.ids[own], ("operator", "user")[own])
    hidden = cluster.plugin(login, "results", "show", cluster.ids[1 - own])
    assert hidden.returncode == 2
    assert "No result has an ID that begins with" in hidden.stderr


def test_a_cluster_wide_right_shows_all(cluster: ResultsCluster) -> None:
    """The administrator reads every namespace."""
    found = cluster.api.ask("GET", f"{EXPLORER}/api/v1/results")
    assert {each["id"] for each in found["items"]} == set(cluster.ids)


def test_only_an_operators_token_for_this_service_delivers(cluster: ResultsCluster) -> None:
    """Tokens for the API server are refused, and so are other accounts and other namespaces."""
    tokens = {
        account: account_token(cluster.api, cluster.one, account, for_results=True)
        for account in (OPERATOR, "reader")
    }
    for_api = account_token(cluster.api, cluster.one, OPERATOR)
    assert cluster.deliver(cluster.one, 1, for_api)[0] == 401
    assert cluster.deliver(cluster.one, 1, tokens["reader"])[0] == 403
    assert cluster.deliver(cluster.two, 1, tokens[OPERATOR])[0] == 403
    assert cluster.deliver(cluster.one, 1, tokens[OPERATOR])[0] == 200


def test_the_callers_name_counts_only_from_the_api_server(
    cluster: ResultsCluster, tmp_path: Path
) -> None:
    """A pod that writes an administrator's headers has no name without the client certificate."""
    path = f"{EXPLORER}/api/v1/results"
    headers = {"X-Remote-User": "root", "X-Remote-Group": "system:masters"}
    assert cluster.service.ask("GET", path, headers)[0] == 401
    other = cluster.service.ask("GET", path, headers, client=OTHER_CLIENT, folder=tmp_path)
    assert other[0] == 401
    proxy = cluster.service.ask("GET", path, headers, client=FRONT_PROXY, folder=tmp_path)
    assert (proxy[0], json.loads(proxy[1])["total"]) == (200, 2)
