"""A server pod with model.cache mounts its model instead of fetching it."""

from typing import Any

import pytest

from inferometer_api.plan.cluster_objects import CACHE_ATTRIBUTES, CACHE_DRIVER
from inferometer_operator.settings import KServe
from support.condition_rows import a_cluster
from support.manifests import after, mounts, server_pod
from support.pretend_cluster import SETTINGS
from support.runs import a_run

SHA256 = "ab" * 32
CACHED = {"uri": "https://models/m.onnx", "sha256": SHA256, "cache": "Node"}


def _volume(pod: dict[str, Any]) -> dict[str, Any]:
    (found,) = (each["csi"] for each in pod["volumes"] if "csi" in each)
    assert isinstance(found, dict)
    return found


def test_the_volume_replaces_the_fetcher() -> None:
    """The pod has no init container; the server reads the model where it is mounted."""
    pod = server_pod(a_run(model=CACHED))
    assert "initContainers" not in pod
    assert _volume(pod) == {
        "driver": CACHE_DRIVER,
        "readOnly": True,
        "volumeAttributes": {"uri": "https://models/m.onnx", "sha256": SHA256},
    }
    assert set(CACHE_ATTRIBUTES) == set(_volume(pod)["volumeAttributes"])
    (server,) = pod["containers"]
    assert mounts(server)["/sources/model-cache"] is True
    assert after("--model", server["command"]) == "/sources/model-cache/model.onnx"
    assert after("--checksums", server["command"]) == "/sources/model-cache/checksums.json"


def test_keys_go_to_the_volume_alone() -> None:
    """The Secret of a private model is named in its volume; no container gets it."""
    model = {**CACHED, "uri": "s3://bucket/m.onnx", "credentialsSecret": "keys"}
    pod = server_pod(a_run(model=model))
    assert _volume(pod)["nodePublishSecretRef"] == {"name": "keys"}
    assert not [each for each in pod["containers"][0]["env"] if "valueFrom" in each]


def test_inputs_are_fetched_as_before() -> None:
    """With a file of inputs, the init container fetches it, and not the model."""
    file = {"file": {"uri": "configmap://inputs/i.npz"}}
    pod = server_pod(a_run(model=CACHED, load={"inputs": file}))
    (fetch,) = pod["initContainers"]
    assert "--uri" not in fetch["command"]
    assert after("--inputs-uri", fetch["command"]) == "configmap://inputs/i.npz"
    assert mounts(fetch) == {"/sources/configmaps/inputs": True, "/model": False}


def test_the_manifest_of_steps_is_fetched() -> None:
    """The init container fetches what the server needs apart from the model."""
    model = {**CACHED, "manifest": {"uri": "configmap://m/k.yaml"}, "pipeline": "Server"}
    accuracy = {"dataset": {"uri": "builtin://digits"}, "metrics": ["Top1"]}
    pod = server_pod(a_run(model=model, scenarios=[{"name": "a", "accuracy": accuracy}]))
    (fetch,), (server,) = pod["initContainers"], pod["containers"]
    assert "--uri" not in fetch["command"]
    assert "--data=manifest.yaml=configmap://m/k.yaml" in fetch["command"]
    assert mounts(fetch) == {"/sources/configmaps/m": True, "/model": False}
    assert after("--manifest", server["command"]) == "/model/manifest.yaml"


@pytest.mark.parametrize(
    ("installed", "server", "words"),
    [
        (False, {}, "spec.model.cache: the nodes of this cluster have no model cache"),
        (
            True,
            {"runtime": "Triton"},
            (
                "spec.model.cache: a server of runtime Triton reads a copy of its model in a "
                "folder of its own, and not the file in the cache; use runtime OnnxRuntime, "
                "OpenVino or KServe, or leave cache out."
            ),
        ),
        (True, {"runtime": "KServe"}, None),
        (True, {}, None),
    ],
)
def test_a_cluster_without_it_refuses(
    installed: bool,  # noqa: FBT001 - a parameter
    server: dict[str, Any],
    words: str | None,
) -> None:
    """Accepted says why a run cannot have its model from the cache."""
    allowed = {"model_cache": installed, "kserve": KServe(enabled=True)}
    settings = SETTINGS.model_copy(update=allowed)
    cluster = a_cluster({"model": CACHED, "server": server}, settings=settings).settle()
    if words is None:
        assert cluster.says("Accepted") == ("True", "Accepted")
        return
    assert cluster.says("Accepted") == ("False", "NotAvailable")
    assert words in cluster.message("Accepted")
