"""An operator delivers the results of its runs to a service that comes and goes."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from inferometer_api.results.service_paths import EXPLORER, suite_page
from support.api_client import Api
from support.cluster.control_plane import ControlPlane
from support.results_service import ResultsServiceProcess, account_token
from support.stage import Stage
from support.suite_stage import (
    GATED,
    NAME,
    apply_suite,
    finished_suite,
    short_suite,
    suite_status,
)

PLUGIN = Path(sys.executable).with_name("kubectl-inferometer")
_ACCOUNT = "inferometer-operator"


@pytest.fixture
def service(
    api_server: ControlPlane, api: Api, stage: Stage, tmp_path: Path
) -> Iterator[ResultsServiceProcess]:
    """Run a results service to which the operator may deliver."""
    stage.operator_token()
    process = ResultsServiceProcess(api_server, api, tmp_path, f"{stage.namespace}/{_ACCOUNT}")
    with closing(process):
        yield process


@pytest.fixture
def settings(
    api: Api, stage: Stage, service: ResultsServiceProcess, tmp_path: Path
) -> dict[str, str]:
    """Return the operator's settings of the service, with a token in a file."""
    token = tmp_path / "token"
    token.write_text(account_token(api, stage.namespace, _ACCOUNT, for_results=True))
    return {
        "url": service.url,
        "authorityFile": str(service.authority),
        "tokenFile": str(token),
    }


def result_maps(stage: Stage) -> list[str]:
    """Return the ConfigMaps with results in the namespace."""
    labels = "app.kubernetes.io/component=result"
    return [
        each["metadata"]["name"] for each in stage.api.all("ConfigMap", stage.namespace, labels)
    ]


def test_a_result_is_delivered_at_once_or_when_the_service_is_back(
    api_server: ControlPlane, stage: Stage, service: ResultsServiceProcess, settings: dict[str, str]
) -> None:
    """ConfigMaps keep it meanwhile; afterwards `result` reads it from the service."""
    operator = stage.start_operator(results=settings)
    stage.apply("first")
    first = stage.finished("first")
    stage.wait("Stored", "Stored", name="first")
    assert result_maps(stage) == []
    where = ("-n", stage.namespace, "--kubeconfig", str(api_server.kubeconfig))
    downloaded = subprocess.run(
        [PLUGIN, "result", "first", *where],
        capture_output=True,
        text=True,
        check=True,
    )
    assert len(downloaded.stdout.encode()) == first["result"]["bytes"]
    service.kill()
    stage.apply("second")
    stage.finished("second")
    stage.wait("Stored", "StoreUnreachable", value="False", name="second")
    assert result_maps(stage) != []
    # Another operator goes on where the last one ended.
    operator.kill()
    service.start()
    stage.start_operator(results=settings)
    stage.wait("Stored", "Stored", name="second")
    stage.wait_for(lambda: result_maps(stage) == [], "the end of the ConfigMaps")


def test_the_outcome_of_a_suite_is_delivered_also_by_the_next_operator(
    api_server: ControlPlane, stage: Stage, service: ResultsServiceProcess, settings: dict[str, str]
) -> None:
    """The status then has the address of its page, which shows the gate."""
    service.kill()
    operator = stage.start_operator(results=settings)
    apply_suite(stage, short_suite(**GATED))
    assert "page" not in finished_suite(stage)
    operator.wait_for_log("suite_not_stored")
    operator.kill()
    service.start()
    stage.start_operator(results=settings)
    stage.wait_for(lambda: suite_status(stage).get("page"), lambda: f"the page:\n{stage.logs()}")
    page = suite_page(NAME, f"{stage.namespace}/{NAME}")
    assert suite_status(stage)["page"] == f"http://127.0.0.1:8091{page}"
    shown = api_server.kubectl("get", "--raw", f"{EXPLORER}{page}")
    assert "<b>INCONCLUSIVE (advisory)</b>" in shown
