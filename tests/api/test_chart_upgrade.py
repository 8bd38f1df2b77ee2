"""An upgrade from the state before server Jobs, and back, loses no run and leaves nothing."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from docgen.files import CHECKOUT

from inferometer_api.crd import NAME, NODE_BENCHMARK_NAME, SUITE_NAME
from support.api_client import AnswerError, Api, Object
from support.chart import CHART, helm
from support.cluster.control_plane import ControlPlane
from support.fake_kubelet import FakeKubelet
from support.stage import Stage, a_stage
from support.waiting import wait_until

BEFORE = CHECKOUT / "tests" / "data" / "upgrade"
USER_ROLES = ("inferometer-admin", "inferometer-edit", "inferometer-view")
RELEASE, ACCOUNT = "inferometer", "inferometer-operator"
RUN_KINDS = "BenchmarkRun,Job,ConfigMap,Pod,Deployment"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Run an API server of this module's own, whose definition is the older one at first."""
    plane = ControlPlane(tmp_path_factory.mktemp("upgrade"))
    yield plane
    plane.stop()


@pytest.fixture(scope="module")
def node(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeKubelet]:
    """Play one node of it."""
    kubelet = FakeKubelet(plane, tmp_path_factory.mktemp("kubelet"))
    yield kubelet
    kubelet.close()


@pytest.fixture
def older(plane: ControlPlane, node: FakeKubelet, tmp_path: Path) -> Iterator[Stage]:
    """Yield a namespace with the older chart, and with the objects that its operator had made."""
    with a_stage(plane, node, tmp_path) as stage:
        helm_succeeds(stage, "install", RELEASE, BEFORE / "chart.tgz")
        plane.wait_until_established("crd", NAME)
        wait_until(lambda: serves_runs(stage.api), "The API for runs")
        stage.play("loadgen", stage.loads.follow)
        restore(stage)
        yield stage
        helm_succeeds(stage, "uninstall", RELEASE)
        definitions = (NAME, SUITE_NAME, NODE_BENCHMARK_NAME)
        plane.kubectl("delete", "crd", *definitions, "--ignore-not-found")
        plane.kubectl("delete", "clusterrole", *USER_ROLES, "--ignore-not-found")


def helm_succeeds(stage: Stage, *words: str | Path) -> None:
    """Run a helm command on the stage's namespace."""
    options = ("--namespace", stage.namespace)
    done = helm(*words, *options, kubeconfig=stage.control_plane.kubeconfig)
    assert done.returncode == 0, done.stderr


def serves_runs(api: Api) -> bool:
    """Return whether the API server knows BenchmarkRuns."""
    try:
        api.all("BenchmarkRun", None)
    except AnswerError:
        return False
    return True


def restore(stage: Stage) -> None:
    """Create the recorded objects with the UIDs of this API server, as if made just now."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    text = (BEFORE / "objects.json").read_text(encoding="utf-8")
    text = re.sub(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", now, text)
    for run in json.loads(text):
        if run["kind"] == "BenchmarkRun":
            uid, name = run["metadata"].pop("uid"), run["metadata"]["name"]
            created = stage.api.create("BenchmarkRun", stage.namespace, run)
            text = text.replace(uid, created["metadata"]["uid"])
            status = {"status": run["status"]}
            stage.api.merge("BenchmarkRun", stage.namespace, name, status, "status")
    # Only now their owners have the right UIDs: else the garbage collector would delete them.
    for child in json.loads(text):
        if child["kind"] != "BenchmarkRun":
            del child["metadata"]["uid"]
            stage.api.create(child["kind"], stage.namespace, child)


def upgrade(stage: Stage) -> None:
    """Upgrade to the chart of this checkout, and start its operator with its own account."""
    helm_succeeds(stage, "upgrade", RELEASE, CHART)
    token = stage.control_plane.kubectl("create", "token", ACCOUNT, "-n", stage.namespace)
    stage.use_token(token.strip())
    stage.start_operator()


def remains(stage: Stage, run: str) -> list[str]:
    """Return KIND/NAME of each object of a run that is there."""
    names = stage.control_plane.kubectl(
        "get", RUN_KINDS, "-n", stage.namespace, "-l", f"inferometer.dev/run={run}", "-o", "name"
    )
    return sorted(names.split())


def kept(stage: Stage) -> tuple[Object, list[str]]:
    """Return the status of the kept run and the objects of its result."""
    return stage.status("kept"), remains(stage, "kept")


def is_within(part: object, whole: object) -> bool:
    """Return whether all that a document holds is in another one, unchanged."""
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(key in whole and is_within(each, whole[key]) for key, each in part.items())
    if isinstance(part, list) and isinstance(whole, list):
        return len(part) == len(whole) and all(map(is_within, part, whole))
    return part == whole


def default_retention(stage: Stage) -> int:
    """Return the definition's default of a field whose default differs between the versions."""
    (version,) = stage.control_plane.get("crd", NAME)["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    return int(spec["retention"]["default"]["ttlSecondsAfterFinished"])


def test_an_upgrade_ends_what_was_measured_and_continues_what_was_queued(older: Stage) -> None:
    """The kept run stays, the measured one ends with a reason, the queued one completes."""
    before = kept(older)
    older.pod("server")
    older.load("measured")
    assert default_retention(older) == 86400
    upgrade(older)
    assert default_retention(older) == 604800
    older.finished("measured")
    assert older.condition("Failed", "measured")["reason"] == "ServerDeleted"
    older.wait_for(
        lambda: all("/measured-result-" in each for each in remains(older, "measured")),
        lambda: f"only a result to be left of {remains(older, 'measured')}",
    )
    load = older.load("queued")
    for name in load.scenarios:
        load.judge(name)
    load.end()
    older.finished("queued")
    assert older.condition("Complete", "queued")["status"] == "True", older.status("queued")
    status, objects = kept(older)
    # The newer definition adds defaults of fields that it has in addition.
    assert is_within(before[0], status), (before[0], status)
    assert objects == before[1]


def test_a_rollback_keeps_runs_and_results_of_the_newer_version(older: Stage) -> None:
    """After `helm rollback` the older definition shows what the newer operator has finished."""
    older.load("measured")
    upgrade(older)
    load = older.load("queued")
    for name in load.scenarios:
        load.judge(name)
    load.end()
    status = older.finished("queued")
    helm_succeeds(older, "rollback", RELEASE)
    older.wait_for(lambda: default_retention(older) == 86400, "the older definition")
    shown = older.status("queued")
    assert shown["phase"] == "Complete"
    assert shown["result"] == status["result"]
    assert set(remains(older, "queued")) >= {
        f"configmap/{name}" for name in status["result"]["configMaps"]
    }
    older.apply("after")
    assert older.run("after")["spec"]["retention"]["ttlSecondsAfterFinished"] == 86400
