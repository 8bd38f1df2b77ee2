"""Figures are compared only if all conditions under which they were measured are equal."""

import json
from typing import Any

import pytest

from inferometer_api.results.reading import read_result
from inferometer_api.results.result import other_model_note
from inferometer_results.store.comparability import (
    MEASUREMENT_VERSION,
    comparability_key,
    differing,
    differing_conditions,
    key_digest,
)
from support.stored_results import CLUSTER, KEPT, LOCAL

KEYS = {
    ("1.1-local", "latency"): "550831e4515f58e8",
    ("1.1-cluster", "s0"): "e5b14d818adb3606",
}


def key_of(document: dict[str, Any], scenario: str = "latency") -> dict[str, str]:
    """Return the key of a raw document."""
    read = read_result(json.dumps(document), source="a document")
    return comparability_key(read.document, scenario)


def changed(*path: str | int, value: Any, like: dict[str, Any] = LOCAL) -> dict[str, Any]:
    """Return a result with one other value."""
    document: dict[str, Any] = json.loads(json.dumps(like))
    inner: Any = document
    for part in path[:-1]:
        inner = inner[part]
    inner[path[-1]] = value
    return document


@pytest.mark.parametrize(
    ("path", "value", "names"),
    [
        (("environment", "model", "sha256"), "0" * 64, {"model"}),
        (("environment", "server", "settings", "runtime_version"), "9.9", {"engine"}),
        (("environment", "server", "settings", "threads"), "2", {"threads"}),
        (("environment", "server", "settings", "precision"), "BF16", {"precision"}),
        (("environment", "server", "version"), "9", {"server"}),
        (("environment", "images"), {"a-server": "x@sha256:1"}, {"image"}),
        (("environment", "node", "cpuModel"), "Other", {"node class"}),
        (("environment", "node", "cpuCount"), 4, {"node class"}),
        (("environment", "node", "kernel"), "7.1.2", {"node class"}),
        (("environment", "server", "settings", "cpu_model"), "Other", {"node class"}),
        (("environment", "server", "settings", "instruction_set"), "avx2", {"node class"}),
        (("environment", "node", "memoryBytes"), 2**40, {"node class"}),
        (("environment", "node", "gpus"), ["H100"], {"node class"}),
        (
            ("run", "spec", "server", "placement", "nodeSelector"),
            {"node.kubernetes.io/instance-type": "c5.xlarge"},
            {"node class"},
        ),
        (("environment", "place"), "Cluster", {"isolation", "node class", "resources"}),
        (("environment", "server", "settings", "pinned_cpus"), "1", {"isolation"}),
        (("environment", "server", "settings", "max_batch_size"), "8", {"batching"}),
        (("environment", "server", "settings", "max_delay_microseconds"), "5", {"batching"}),
        (("environment", "server", "settings", "instances"), "2", {"threads"}),
        (("environment", "server", "tensors"), "Json", {"tensors"}),
        (("run", "spec", "server", "replicas"), 2, {"replicas"}),
        (("run", "spec", "server", "gpu"), {"count": 2}, {"GPUs"}),
        (("run", "spec", "validity", "warmUpSeconds"), 9, {"warm-up"}),
        (("run", "spec", "validity", "warmUp"), "UntilSteady", {"warm-up"}),
        (("run", "spec", "load", "protocol"), "GRPC", {"load"}),
        (("run", "spec", "server", "device"), "GPU", {"device", "node class"}),
        (("run", "spec", "scenarios", 0), {"name": "latency", "offline": {}}, {"scenario"}),
        # These are no conditions of a figure.
        (("run", "spec", "load", "seed"), 7, set()),
        (("environment", "node", "hostname"), "other", set()),
        (("environment", "node", "kernel"), "6.18.99", set()),
        (("run", "spec", "server", "placement", "nodeSelector"), {"rack": "7"}, set()),
        (("run", "spec", "server", "readyDeadlineSeconds"), 9, set()),
        (("run", "spec", "server", "resources", "cpu"), "7", set()),  # not enforced locally
        (("runId",), "other", set()),
        (("environment", "server", "settings", "process_id"), "1", set()),
    ],
)
def test_a_changed_condition_is_named(path: tuple[str, ...], value: Any, names: set[str]) -> None:
    """Each condition changes the key, and nothing else does."""
    before, after = key_of(LOCAL), key_of(changed(*path, value=value))
    assert set(differing(before, after)) == names
    assert (key_digest(before) == key_digest(after)) == (not names)


@pytest.mark.parametrize(
    ("path", "value", "names"),
    [
        (("run", "spec", "server", "resources", "cpu"), "7", {"resources"}),
        (("run", "spec", "server", "resources", "memory"), "7Gi", {"resources"}),
        (("run", "spec", "server", "batching"), {"maxBatchSize": 8}, {"batching"}),
        (("run", "spec", "server", "threads"), 3, {"threads"}),
        (("run", "spec", "server", "precision"), "FP32", {"precision"}),
        (("environment", "server", "replicas", 0, "qualityOfService"), "Burstable", {"isolation"}),
        (("environment", "server", "replicas", 0, "node"), "node-8", {"isolation", "node class"}),
        (("environment", "server", "replicas", 0, "clusterNode"), {"otherPods": 2}, {"isolation"}),
        (("environment", "server", "replicas", 0, "clusterNode"), {"otherPods": 0}, set()),
        (
            ("environment", "server", "replicas", 0, "clusterNode"),
            {"instanceType": "c5.xlarge"},
            {"node class"},
        ),
    ],
)
def test_what_a_server_does_not_report_is_taken_from_the_run(
    path: tuple[str | int, ...], value: Any, names: set[str]
) -> None:
    """A launched server of a cluster without settings, such as one of another maker."""
    launched = changed("environment", "server", "launched", value=True, like=CLUSTER)
    before = key_of(launched, "s0")
    assert "load on the same node" in before["isolation"]
    assert set(differing(before, key_of(changed(*path, value=value, like=launched), "s0"))) == names


MIXED, PIPELINE = (
    json.loads((KEPT / f"1.1-local-{name}.json").read_bytes()) for name in ("mixed", "pipeline")
)
MIXED_NOTES: list[str] = MIXED["environment"]["notes"]
TRITON = changed("run", "spec", "server", "runtime", value="Triton")
CUSTOM = changed("run", "spec", "server", value={"runtime": "Custom", "custom": {"name": "mine"}})


@pytest.mark.parametrize(
    ("scenario", "like", "path", "value", "names"),
    [
        (
            *("s0", CLUSTER, ("run", "spec", "server", "external")),
            *({"url": "http://127.0.0.1:36374"}, {"address": ("", "")}),
        ),
        (
            *("s0", CLUSTER, ("run", "spec", "server", "external")),
            *({"service": {"name": "a", "port": 1}}, {"address": ("", "Service a:1")}),
        ),
        (
            *("s0", PIPELINE, ("run", "spec", "model", "pipeline"), "Client"),
            {"pipeline": ("Server", "Client")},
        ),
        (
            *("s0", PIPELINE, ("environment", "model", "manifest", "sha256"), "0" * 64),
            {"manifest": ("", "0" * 64)},
        ),
        (
            *("latency", TRITON, ("run", "spec", "server", "tritonBackend"), "Python"),
            {"back end": ("OnnxRuntime", "Python")},
        ),
        ("latency", TRITON, ("run", "spec", "server", "tritonBackend"), "OnnxRuntime", {}),
        (
            *("latency", CUSTOM, ("run", "spec", "server", "custom", "name"), "other"),
            {"custom server": ("mine", "other")},
        ),
        (
            *("latency", LOCAL, ("environment", "server", "settings", "external_data_sha256")),
            *('{"a": "0"}', {"model data": ("none", "")}),
        ),
        (
            *("shared", MIXED, ("run", "spec", "otherModels", 0, "uri"), "file:x.onnx"),
            {"other models": ("", "x file:x.onnx")},
        ),
        ("shared", MIXED, ("run", "spec", "otherModels"), None, {"other models": ("", "none")}),
        (
            *("shared", MIXED, ("environment", "notes")),
            *([*MIXED_NOTES[:-1], other_model_note("wide", "0")], {"other models": ("", "wide 0")}),
        ),
    ],
)
def test_a_condition_that_few_runs_have_is_named(
    scenario: str,
    like: dict[str, Any],
    path: tuple[str | int, ...],
    value: Any,
    names: dict[str, tuple[str, str]],
) -> None:
    """With what it is in both; "" stands for any text here."""
    before = key_of(like, scenario)
    after = key_of(changed(*path, value=value, like=like), scenario)
    found = differing(before, after)
    assert set(found) == set(names)
    for name, expected in names.items():
        assert all(
            one == (wanted or one) for one, wanted in zip(found[name], expected, strict=True)
        )
        assert found[name][0] != found[name][1]
        assert all(found[name])


def test_a_default_is_no_condition_of_a_key() -> None:
    """Keys of older results, which do not know the condition, are equal."""
    absent = {"pipeline", "back end", "other models", "model data", "manifest", "address"}
    assert not absent & set(key_of(LOCAL))
    stated = changed("run", "spec", "model", "pipeline", value="Client")
    assert key_of(stated) == key_of(LOCAL)


def test_the_files_of_a_models_data_have_no_order() -> None:
    """The server may report them in any."""
    path = ("environment", "server", "settings", "external_data_sha256")
    one, other = (changed(*path, value=each) for each in ('{"a":"0","b":"1"}', '{"b":"1","a":"0"}'))
    assert key_of(one) == key_of(other)
    assert key_of(changed(*path, value="[" * 100_000))["model data"]


def test_a_manifest_is_a_condition_only_if_its_steps_count() -> None:
    """Random tensors pass by them."""
    path = ("environment", "model", "manifest")
    manifest = PIPELINE["environment"]["model"]["manifest"]
    assert not differing(key_of(LOCAL), key_of(changed(*path, value=manifest)))
    client = changed("run", "spec", "model", "pipeline", value="Client", like=PIPELINE)
    assert "manifest" in key_of(client, "s0")


def test_instances_that_a_server_does_not_report_are_those_of_the_run() -> None:
    """As its threads are."""
    launched = changed("environment", "server", "launched", value=True, like=CLUSTER)
    two = changed("run", "spec", "server", "instances", value=2, like=launched)
    assert differing(key_of(launched, "s0"), key_of(two, "s0"))["threads"] == ("", "instances 2")


def test_results_without_a_scenario_in_common_differ_in_it_and_in_what_they_share() -> None:
    """They are not comparable, whatever else is equal."""
    local, cluster = (
        read_result(json.dumps(each), source="x").document for each in (LOCAL, CLUSTER)
    )
    found = differing_conditions(local, cluster, [])
    assert found["scenario"] == ("latency, traffic, sizes, clients, capacity", "s0, s1, s2")
    assert {"model", "engine"} <= found.keys()
    assert differing_conditions(local, local, []) == {}


def test_the_load_generators_image_is_no_condition() -> None:
    """Its changes of meaning raise the version of the measurement."""
    with_image = changed("environment", "images", value={"a-load": "x@sha256:1"})
    assert not differing(key_of(LOCAL), key_of(with_image))


def test_a_result_without_an_environment_has_a_key() -> None:
    """It differs from every complete one."""
    without = {name: value for name, value in LOCAL.items() if name != "environment"}
    assert "model" in differing(key_of(LOCAL), key_of(without))


def test_the_keys_of_kept_results_move_only_with_the_version_of_the_measurement() -> None:
    """A change of what a figure means raises MEASUREMENT_VERSION.

    One of what a key holds needs a migration instead, which fills the index again.
    """
    found = {}
    for name, scenario in KEYS:
        document = json.loads((KEPT / f"{name}.json").read_bytes())
        found[name, scenario] = key_digest(key_of(document, scenario))
    assert (MEASUREMENT_VERSION, found) == (1, KEYS)


def test_the_cluster_knows_the_machine_of_a_server_that_reports_none() -> None:
    """On a node of its own, where the load generator's machine says nothing about it."""
    known = {
        "instanceType": "c5.xlarge",
        "cpuCount": 4,
        "memoryBytes": 8 * 2**30,
        "kernel": "6.18.3-cloud",
        "gpuModel": "NVIDIA-H100",
    }
    away = changed("environment", "server", "replicas", 0, "node", value="node-8", like=CLUSTER)
    settings = away["environment"]["server"]["settings"]
    for name in ("memory_gibibytes", "kernel", "cpu_count", "gpus"):
        settings.pop(name, None)
    path = ("environment", "server", "replicas", 0, "clusterNode")
    found = key_of(changed(*path, value=known, like=away), "s0")["node class"]
    for part in ("4 CPUs", "8 GiB", "Linux 6.18", "c5.xlarge"):
        assert part in found.split(", ")
    assert "H100" not in found  # the run used no GPU
    on_gpu = changed("run", "spec", "server", "device", value="GPU", like=away)
    found = key_of(changed(*path, value=known, like=on_gpu), "s0")["node class"]
    assert "NVIDIA-H100" in found.split(", ")
    # What is known of one of two servers' nodes is not known of both.
    other = {**away["environment"]["server"]["replicas"][0], "node": "node-9"}
    both = changed(*path, value=known, like=away)
    both["environment"]["server"]["replicas"].append(other)
    assert "c5.xlarge" not in key_of(both, "s0")["node class"]
