"""The pods of a run see what the run names, read-only, and only where it is needed."""

import json

from inferometer_operator.manifests.load_job import inputs_path, manifest_path, trace_paths
from support.manifests import FULL, IMAGES, after, load_pod, mounts, read, server_pod
from support.runs import a_run


def test_a_zoo_model_needs_no_volume_of_anybody() -> None:
    """A built-in model is written to a folder of the pod, which the server can only read."""
    pod = server_pod(a_run(), FULL)
    assert {"name": "model", "emptyDir": {"sizeLimit": "3Gi"}} in pod["volumes"]
    (fetch,), (server,) = pod["initContainers"], pod["containers"]
    assert mounts(fetch) == {"/model": False}
    assert mounts(server) == {"/model": True}
    assert after("--model", server["command"]) == "/model/model.onnx"
    assert after("--max-model-bytes", fetch["command"]) == str(3 << 30)


def test_a_claim_is_mounted_read_only() -> None:
    """A model on a claim is served where it lies; inputs are seen by the fetcher alone."""
    pod = server_pod(
        a_run(
            model={"uri": "pvc://models/a/m.onnx"},
            load={"inputs": {"file": {"uri": "configmap://samples/b.npz"}}},
        )
    )
    sources = {each["name"]: each for each in pod["volumes"] if each["name"].startswith("source")}
    assert sources == {
        "source-0": {
            "name": "source-0",
            "persistentVolumeClaim": {"claimName": "models", "readOnly": True},
        },
        "source-1": {"name": "source-1", "configMap": {"name": "samples"}},
    }
    (fetch,), (server,) = pod["initContainers"], pod["containers"]
    assert mounts(fetch) == {
        "/sources/claims/models": True,
        "/sources/configmaps/samples": True,
        "/model": False,
    }
    assert mounts(server) == {"/sources/claims/models": True, "/model": True}
    assert after("--model", server["command"]) == "/sources/claims/models/a/m.onnx"
    assert after("--warm-up-inputs", server["command"]) == "/model/inputs.npz"


def test_a_claim_of_model_and_inputs_is_mounted_once() -> None:
    """One claim may hold both."""
    uri = "pvc://both/i.npz"
    pod = server_pod(
        a_run(model={"uri": "pvc://both/m.onnx"}, load={"inputs": {"file": {"uri": uri}}})
    )
    assert [each["name"] for each in pod["volumes"]] == ["tmp", "model", "source-0"]


def test_inputs_of_the_load_pod_are_fetched() -> None:
    """The load generator reads a file in a folder of its pod, and no volume of the author."""
    run = a_run(load={"inputs": {"file": {"uri": "configmap://samples/b.npz"}}})
    pod = load_pod(run)
    (fetch,), (loader,) = pod["initContainers"], pod["containers"]
    assert fetch["image"] == IMAGES.serving
    assert mounts(fetch) == {
        "/sources/configmaps/samples": True,
        "/inputs": False,
    }
    assert mounts(loader) == {"/etc/inferometer": True, "/inputs": True}
    assert inputs_path(read(run)) == "/inputs/inputs.npz"
    assert inputs_path(read(a_run())) is None
    assert "initContainers" not in load_pod(a_run())


def test_traces_are_fetched_together_with_inputs() -> None:
    """A trace comes into the load pod alone, as a file by its scenario's name."""
    scenarios = [
        {"name": "replay", "trace": {"uri": "configmap://times/a.csv"}},
        {"name": "again", "trace": {"uri": "https://host/b.csv", "sha256": "a" * 64}},
    ]
    run = {**a_run()["spec"], "scenarios": scenarios}
    pod = load_pod({**a_run(), "spec": run})
    (fetch,), (loader,) = pod["initContainers"], pod["containers"]
    assert mounts(fetch) == {"/sources/configmaps/times": True, "/inputs": False}
    assert "--inputs-uri" not in fetch["command"]
    assert [each for each in fetch["command"] if each.startswith("--trace=")] == [
        "--trace=replay=configmap://times/a.csv",
        "--trace=again=https://host/b.csv",
    ]
    assert f"--trace-sha256=again={'a' * 64}" in fetch["command"]
    assert mounts(loader) == {"/etc/inferometer": True, "/inputs": True}
    assert trace_paths(read({**a_run(), "spec": run})) == {
        "replay": "/inputs/trace-replay.csv",
        "again": "/inputs/trace-again.csv",
    }


def test_manifest_and_data_set_are_fetched_for_the_load() -> None:
    """Both come into the load pod alone; a built-in data set needs no file."""
    scenarios = [
        {"name": "own", "accuracy": {"dataset": {"uri": "pvc://data/a.zip"}, "metrics": ["Top1"]}},
        {"name": "digits", "accuracy": {"dataset": {"uri": "builtin://digits"}, "metrics": ["F1"]}},
    ]
    model = {"uri": "zoo://a/b", "manifest": {"uri": "configmap://m/k.yaml", "sha256": "a" * 64}}
    run = {**a_run(), "spec": {**a_run()["spec"], "model": model, "scenarios": scenarios}}
    pod = load_pod(run)
    (fetch,), (loader,) = pod["initContainers"], pod["containers"]
    assert mounts(fetch) == {
        "/sources/claims/data": True,
        "/sources/configmaps/m": True,
        "/inputs": False,
    }
    assert [each for each in fetch["command"] if each.startswith("--data")] == [
        "--data=manifest.yaml=configmap://m/k.yaml",
        f"--data-sha256=manifest.yaml={'a' * 64}",
        "--data=dataset-own=pvc://data/a.zip",
    ]
    assert mounts(loader) == {"/etc/inferometer": True, "/inputs": True}
    assert manifest_path(read(run)) == "/inputs/manifest.yaml"
    assert trace_paths(read(run)) == {"own": "/inputs/dataset-own"}
    assert manifest_path(read(a_run())) is None


def test_a_server_that_runs_steps_has_the_manifest() -> None:
    """It is fetched into the server's pod as into the load pod; without the steps it is not."""
    manifest = {"uri": "configmap://m/k.yaml", "sha256": "a" * 64}
    model = {"uri": "pvc://models/m.onnx", "manifest": manifest, "pipeline": "Server"}
    accuracy = {"dataset": {"uri": "builtin://digits"}, "metrics": ["Top1"]}
    run = a_run(model=model, scenarios=[{"name": "a", "accuracy": accuracy}])
    pod = server_pod(run)
    (fetch,), (server,) = pod["initContainers"], pod["containers"]
    assert mounts(fetch) == {
        "/sources/claims/models": True,
        "/sources/configmaps/m": True,
        "/model": False,
    }
    assert [each for each in fetch["command"] if each.startswith("--data")] == [
        "--data=manifest.yaml=configmap://m/k.yaml",
        f"--data-sha256=manifest.yaml={'a' * 64}",
    ]
    assert after("--manifest", server["command"]) == "/model/manifest.yaml"
    assert "--allow-python-steps" not in server["command"]
    assert mounts(server) == {"/sources/claims/models": True, "/model": True}
    pod = server_pod(a_run(model={**model, "pipeline": "Client"}))
    (fetch,), (server,) = pod["initContainers"], pod["containers"]
    assert mounts(fetch) == {"/sources/claims/models": True, "/model": False}
    assert not any(each.startswith("--data") for each in fetch["command"])
    assert "--manifest" not in server["command"]


def test_only_the_fetcher_is_given_keys() -> None:
    """Only the init container gets the Secret of a store, key by key."""
    model = {"uri": "s3://bucket/m.onnx", "credentialsSecret": "keys"}
    run = a_run(model=model, load={"inputs": {"file": {"uri": "s3://bucket/i.npz"}}})
    for pod in (server_pod(run), load_pod(run)):
        (fetch,), (main,) = pod["initContainers"], pod["containers"]
        keys = [
            each["valueFrom"]["secretKeyRef"]
            for each in fetch["env"]
            if "secretKeyRef" in each.get("valueFrom", {})
        ]
        assert {each["name"] for each in keys} == {"keys"}
        assert {"accessKeyId", "secretAccessKey", "endpoint", "region"} <= {
            each["key"] for each in keys
        }
        assert "keys" not in json.dumps([main, pod["volumes"]])


def test_a_key_cannot_be_requested_by_name() -> None:
    """Kubernetes puts variables into commands: what a run says is kept from being taken for one."""
    uri = "https://host/$(INFEROMETER_S3_SECRET_ACCESS_KEY)"
    inputs = {"file": {"uri": uri, "sha256": "b" * 64}}
    model = {"uri": "s3://bucket/m$.onnx", "credentialsSecret": "keys"}
    (fetch,) = server_pod(a_run(model=model, load={"inputs": inputs}))["initContainers"]
    assert after("--uri", fetch["command"]) == "s3://bucket/m$$.onnx"
    assert after("--inputs-sha256", fetch["command"]) == "b" * 64
    inputs_uri = after("--inputs-uri", fetch["command"])
    assert inputs_uri == "https://host/$$(INFEROMETER_S3_SECRET_ACCESS_KEY)"


def test_every_model_of_a_mix_is_fetched_by_a_container_of_its_own() -> None:
    """Each into a folder of its own; one on a claim stays there, and the server reads all."""
    digest = "a" * 64
    pod = server_pod(
        a_run(
            model={"uri": "zoo://classification/resnet18"},
            otherModels=[
                {"uri": "https://host/b.onnx", "sha256": digest},
                {"uri": "pvc://models/c.onnx"},
            ],
            scenarios=[
                {
                    "name": "mixed",
                    "mixWeights": "Zipf",
                    "mix": [{"model": each} for each in ("resnet18", "b", "c")],
                    "singleStream": {},
                }
            ],
        ),
        FULL,
    )
    own, first, second = pod["initContainers"]
    assert [each["name"] for each in (own, first, second)] == ["fetch", "fetch-1", "fetch-2"]
    assert after("--destination", first["command"]) == "/model/others/b"
    assert after("--sha256", first["command"]) == digest
    assert after("--max-model-bytes", first["command"]) == str(3 << 30)
    for each in (own, first, second):
        assert mounts(each) == {"/sources/claims/models": True, "/model": False}
    (server,) = pod["containers"]
    assert mounts(server) == {"/sources/claims/models": True, "/model": True}
    assert [word for word in server["command"] if word.startswith("--other-model=")] == [
        "--other-model=b=/model/others/b/b.onnx",
        "--other-model=c=/sources/claims/models/c.onnx",
    ]
