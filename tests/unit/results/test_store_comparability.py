"""Figures are compared only if all conditions under which they were measured are equal."""

import json
from typing import Any

import pytest

from inferometer_api.results.reading import read_result
from inferometer_results.store.comparability import (
    MEASUREMENT_VERSION,
    comparability_key,
    differing,
    key_digest,
)
from support.stored_results import CLUSTER, KEPT, LOCAL

KEYS = {
    ("1.1-local", "latency"): "550831e4515f58e8",
    ("1.1-cluster", "s0"): "ceb87b7797a2b9dc",
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
        (("environment", "place"), "Cluster", {"isolation", "resources"}),
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
        (("run", "spec", "server", "device"), "GPU", {"device"}),
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
        (("environment", "server", "replicas", 0, "node"), "node-8", {"isolation"}),
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
