"""A real API server accepts every example, and an unchanged one a second time."""

import json
from pathlib import Path

import pytest
import yaml

from support.api_client import Api
from support.cluster.control_plane import ControlPlane

FOLDER = Path(__file__).parents[2] / "examples"
FILES = sorted(FOLDER.glob("*.yaml"))
NESTED_FILES = sorted(each for each in FOLDER.glob("*/*.yaml") if each.name != "model.yaml")
"""Objects that an example needs in a cluster; a model.yaml is a manifest, which no cluster has."""
_EVERY_FILE = [word for file in (*FILES, *NESTED_FILES) for word in ("-f", str(file))]


def _name(path: Path) -> str:
    return path.stem if path.parent == FOLDER else f"{path.parent.name}/{path.stem}"


@pytest.mark.parametrize("file", [*FILES, *NESTED_FILES], ids=_name)
def test_an_example_is_taken(
    api_server: ControlPlane, api: Api, namespace: str, file: Path
) -> None:
    """Every object of every file passes strict validation."""
    words = ("create", "--dry-run=server", "--validate=strict", "-o", "name", "-f", str(file))
    made = api_server.kubectl("--namespace", namespace, *words).splitlines()
    assert len(made) == len([*yaml.safe_load_all(file.read_text())])


@pytest.mark.parametrize("file", NESTED_FILES, ids=_name)
def test_pods_of_an_example_are_restricted(
    api_server: ControlPlane, namespace: str, file: Path
) -> None:
    """Servers and jobs of an example have pods that a strict namespace admits."""
    templates = [
        each["spec"]["template"]
        for each in yaml.safe_load_all(file.read_text())
        if "template" in each["spec"]
    ]
    assert templates
    for template in templates:
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "tried", "namespace": namespace},
            "spec": template["spec"],
        }
        api_server.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(pod))


def test_a_file_that_did_not_change_is_unchanged(
    api_server: ControlPlane, api: Api, namespace: str
) -> None:
    """No default and no normalisation of the API server makes kubectl send a change."""
    words = ("--namespace", namespace, "apply", *_EVERY_FILE)
    made = api_server.kubectl(*words).splitlines()
    assert made
    assert [each.rpartition(" ")[2] for each in made] == ["created"] * len(made)
    again = api_server.kubectl(*words).splitlines()
    assert [each for each in again if not each.endswith(" unchanged")] == []


def test_a_file_that_did_not_change_is_unchanged_on_the_server_side(
    api_server: ControlPlane, api: Api, namespace: str
) -> None:
    """A second server-side apply writes no object of ours, as its resourceVersion shows."""
    words = ("--namespace", namespace, "apply", "--server-side", "-o", "json", *_EVERY_FILE)
    before, after = (_versions(api_server.kubectl(*words)) for _ in range(2))
    assert len(before) == len(FILES)
    assert before == after


def _versions(listed: str) -> dict[str, str]:
    return {
        f"{each['kind']}/{each['metadata']['name']}": each["metadata"]["resourceVersion"]
        for each in json.loads(listed)["items"]
        # Controllers write the status of the others meanwhile.
        if each["kind"] in {"BenchmarkRun", "BenchmarkSuite", "NodeBenchmark"}
    }
