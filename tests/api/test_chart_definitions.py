"""Upgrades reach the CustomResourceDefinition, and no end of a release takes users' runs along."""

import json
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from docgen.files import CHECKOUT

from inferometer_api.crd import NAME, NODE_BENCHMARK_NAME, SUITE_NAME
from support.chart import CHART, helm
from support.cluster.control_plane import ControlPlane
from support.cluster.namespaces import fresh_namespace
from support.waiting import wait_until

RUN = {
    "apiVersion": "inferometer.dev/v1alpha1",
    "kind": "BenchmarkRun",
    "metadata": {"name": "kept"},
    "spec": {
        "model": {"uri": "zoo://classification/mobilenet_v2"},
        "scenarios": [{"name": "one", "singleStream": {}}],
    },
}
NO_DEFINITION = ("--set", "crds.install=false")
NO_ADMIN = (*NO_DEFINITION, "--set", "admissionPolicy.create=false")
USER_ROLES = [
    f"clusterrole.rbac.authorization.k8s.io/inferometer-{role}"
    for role in ("admin", "edit", "view")
]


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Run an API server of this module's own: definitions are the whole cluster's."""
    plane = ControlPlane(tmp_path_factory.mktemp("charts"))
    yield plane
    plane.stop()


@pytest.fixture
def bare(plane: ControlPlane) -> ControlPlane:
    """Give the API server, without any definition of ours."""
    definitions = (NAME, SUITE_NAME, NODE_BENCHMARK_NAME)
    plane.kubectl("delete", "crd", *definitions, "--ignore-not-found")
    for role in ("view", "edit", "admin"):
        plane.kubectl("delete", "clusterrole", f"inferometer-{role}", "--ignore-not-found")
    policies = "validatingadmissionpolicies,validatingadmissionpolicybindings"
    plane.kubectl("delete", policies, "--all")
    return plane


@pytest.fixture
def namespace(bare: ControlPlane) -> Iterator[str]:
    """Make a namespace."""
    with fresh_namespace(bare, "chart") as name:
        yield name


@pytest.fixture
def other_namespace(bare: ControlPlane) -> Iterator[str]:
    """Make another namespace."""
    with fresh_namespace(bare, "chart") as name:
        yield name


def done(plane: ControlPlane, *words: str | Path) -> str:
    """Return what helm says where it succeeds."""
    result = helm(*words, kubeconfig=plane.kubeconfig)
    assert result.returncode == 0, result.stderr
    return result.stdout


def refused(plane: ControlPlane, *words: str | Path) -> str:
    """Return what helm complains of."""
    result = helm(*words, kubeconfig=plane.kubeconfig)
    assert result.returncode != 0, result.stdout
    return result.stderr


def install(namespace: str, *words: str, release: str = "inferometer") -> list[str | Path]:
    """Return the words that install the chart there."""
    return ["install", release, CHART, "--namespace", namespace, *words]


def allows(plane: ControlPlane, *words: str) -> bool:
    """Return whether `kubectl auth can-i` says yes, which it says with its exit code too."""
    try:
        return plane.kubectl(*words).strip() == "yes"
    except RuntimeError:
        return False


def make_run(plane: ControlPlane, namespace: str) -> str:
    """Make a run as soon as the API server serves the definition; return its UID."""
    plane.wait_until_established("crd", NAME)
    plane.kubectl("apply", "--namespace", namespace, "-f", "-", stdin=json.dumps(RUN))
    return run_uid(plane, namespace)


def run_uid(plane: ControlPlane, namespace: str) -> str:
    """Return the run's UID: another one is another run."""
    return str(plane.get("benchmarkrun", "kept", "--namespace", namespace)["metadata"]["uid"])


def newer_chart(folder: Path) -> Path:
    """Return a chart whose definition has one field more."""
    chart = Path(shutil.copytree(CHART, folder / "inferometer"))
    file = chart / "files" / f"{NAME}.yaml"
    definition = yaml.safe_load(file.read_text(encoding="utf-8"))
    (version,) = definition["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["novelty"] = {"type": "string", "maxLength": 9}
    file.write_text(yaml.safe_dump(definition), encoding="utf-8")
    return chart


def has_novelty(plane: ControlPlane) -> bool:
    """Return whether the API server's definition has the newer chart's field."""
    (version,) = plane.get("crd", NAME)["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return "novelty" in spec["properties"]


def test_an_upgrade_reaches_the_definition(
    bare: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    """`helm upgrade` gives the definition its new field, `rollback` takes it; runs stay."""
    done(bare, *install(namespace))
    uid = make_run(bare, namespace)
    done(bare, "upgrade", "inferometer", newer_chart(tmp_path), "--namespace", namespace)
    assert has_novelty(bare)
    assert run_uid(bare, namespace) == uid
    done(bare, "rollback", "inferometer", "--namespace", namespace)
    assert not has_novelty(bare)
    assert run_uid(bare, namespace) == uid


def test_an_uninstallation_keeps_definition_and_runs(bare: ControlPlane, namespace: str) -> None:
    """After `helm uninstall` runs and user roles stay, nothing else; an installation goes on."""
    done(bare, *install(namespace))
    uid = make_run(bare, namespace)
    output = done(bare, "uninstall", "inferometer", "--namespace", namespace)
    assert f"[CustomResourceDefinition] {NAME}" in output
    assert run_uid(bare, namespace) == uid
    left = bare.kubectl(
        "get",
        "deployments,roles,rolebindings,configmaps,serviceaccounts,pdb,clusterroles,"
        "validatingadmissionpolicies,validatingadmissionpolicybindings",
        "--namespace", namespace, "-o", "name", "--selector", "app.kubernetes.io/instance",
    )  # fmt: skip
    assert left.split() == USER_ROLES
    done(bare, *install(namespace))
    assert run_uid(bare, namespace) == uid


def test_a_release_that_lets_go_of_the_definition_keeps_it(
    bare: ControlPlane, namespace: str
) -> None:
    """An upgrade with crds.install=false leaves definition and runs where they are."""
    done(bare, *install(namespace))
    uid = make_run(bare, namespace)
    done(bare, "upgrade", "inferometer", CHART, "--namespace", namespace, *NO_DEFINITION)
    assert run_uid(bare, namespace) == uid


def test_a_second_release_is_refused_with_instructions(
    bare: ControlPlane, namespace: str, other_namespace: str
) -> None:
    """Where another release has the definition, the refusal names it, and both ways out work."""
    done(bare, *install(namespace))
    uid = make_run(bare, namespace)
    message = refused(bare, *install(other_namespace, release="second"))
    assert f"belongs to the Helm release inferometer in namespace {namespace}" in message
    assert "--set crds.install=false" in message
    done(bare, *install(other_namespace, *NO_DEFINITION, release="second"))
    done(bare, "uninstall", "inferometer", "--namespace", namespace)
    done(bare, "uninstall", "second", "--namespace", other_namespace)
    for line in message.splitlines():
        if line.strip().startswith("kubectl "):
            bare.kubectl(*shlex.split(line)[1:])
    done(bare, *install(other_namespace, release="second"))
    assert run_uid(bare, namespace) == uid


def test_user_roles_survive_the_release_that_installed_them(
    bare: ControlPlane, namespace: str, other_namespace: str
) -> None:
    """Of two releases the one with the definition goes: authors keep their rights to runs."""
    done(bare, *install(namespace))
    bare.wait_until_established("crd", NAME)
    done(bare, *install(other_namespace, *NO_DEFINITION, release="second"))
    bare.kubectl(
        "create", "rolebinding", "author", "--clusterrole=edit",
        f"--serviceaccount={other_namespace}:default", "--namespace", other_namespace,
    )  # fmt: skip
    author = f"--as=system:serviceaccount:{other_namespace}:default"
    words = ("auth", "can-i", "create", "benchmarkruns", "--namespace", other_namespace, author)
    wait_until(lambda: allows(bare, *words), "The author's right to create runs")
    done(bare, "uninstall", "inferometer", "--namespace", namespace)
    # The controller that aggregates roles would take the rights away once it has seen them go.
    bare.kubectl("get", "clusterrole", "inferometer-edit")
    assert allows(bare, *words)


def test_a_missing_definition_is_reported_with_the_way_to_install_it(
    bare: ControlPlane, namespace: str
) -> None:
    """crds.install=false in a cluster without the definition: what is refused is the admin's."""
    message = refused(bare, *install(namespace, *NO_DEFINITION))
    (command,) = (line.strip() for line in message.splitlines() if "kubectl apply" in line)
    *words, file = shlex.split(command)[1:]
    assert (CHECKOUT / file).is_file()
    bare.kubectl(*words, str(CHECKOUT / file))
    bare.wait_until_established("crd", NAME)
    done(bare, *install(namespace, *NO_DEFINITION))
    mine = ("--set", "crds.install=true")
    message = refused(bare, "upgrade", "inferometer", CHART, "--namespace", namespace, *mine)
    assert "was not installed by Helm" in message


def test_the_admin_of_a_namespace_installs_an_operator_for_it(
    bare: ControlPlane, namespace: str, other_namespace: str, tmp_path: Path
) -> None:
    """Who has the role `admin` in one namespace alone installs there, as the how-to says."""
    done(bare, *install(other_namespace))
    bare.wait_until_established("crd", NAME)
    bare.kubectl(
        "create", "rolebinding", "admin", "--clusterrole=admin",
        f"--serviceaccount={namespace}:default", "--namespace", namespace,
    )  # fmt: skip
    token = bare.kubectl("create", "token", "default", "--namespace", namespace).strip()
    theirs = bare.write_kubeconfig(tmp_path / "kubeconfig", token)
    upgrade = helm(*install(namespace, *NO_ADMIN, release="ours"), kubeconfig=theirs)
    assert upgrade.returncode == 0, upgrade.stderr
    everywhere = helm(
        *install(namespace, "--set", "mode=Cluster", release="all"), kubeconfig=theirs
    )
    assert "forbidden" in everywhere.stderr
