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
from support.stored_results import KEPT, LOCAL

KEYS = {
    ("1.1-local", "latency"): "101007a24c022a85",
    ("1.1-cluster", "s0"): "4b9d37f0fe1b9b71",
}


def key_of(document: dict[str, Any], scenario: str = "latency") -> dict[str, str]:
    """Return the key of a raw document."""
    read = read_result(json.dumps(document), source="a document")
    return comparability_key(read.document, scenario)


def changed(*path: str | int, value: Any) -> dict[str, Any]:
    """Return the local result with one other value."""
    document: dict[str, Any] = json.loads(json.dumps(LOCAL))
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
        (("environment", "place"), "Cluster", {"isolation"}),
        (("run", "spec", "load", "protocol"), "GRPC", {"load"}),
        (("run", "spec", "server", "device"), "GPU", {"device"}),
        (("run", "spec", "scenarios", 0), {"name": "latency", "offline": {}}, {"scenario"}),
        # These are no conditions of a figure.
        (("run", "spec", "load", "seed"), 7, set()),
        (("environment", "node", "hostname"), "other", set()),
        (("environment", "node", "kernel"), "6.18.99", set()),
        (("runId",), "other", set()),
        (("environment", "server", "settings", "process_id"), "1", set()),
    ],
)
def test_a_changed_condition_is_named(path: tuple[str, ...], value: Any, names: set[str]) -> None:
    """Each condition changes the key, and nothing else does."""
    before, after = key_of(LOCAL), key_of(changed(*path, value=value))
    assert set(differing(before, after)) == names
    assert (key_digest(before) == key_digest(after)) == (not names)


def test_the_load_generators_image_is_no_condition() -> None:
    """Its changes of meaning raise the version of the measurement."""
    with_image = changed("environment", "images", value={"a-load": "x@sha256:1"})
    assert not differing(key_of(LOCAL), key_of(with_image))


def test_a_result_without_an_environment_has_a_key() -> None:
    """It differs from every complete one."""
    without = {name: value for name, value in LOCAL.items() if name != "environment"}
    assert "model" in differing(key_of(LOCAL), key_of(without))


def test_the_keys_of_kept_results_move_only_with_the_version_of_the_measurement() -> None:
    """A change of what a figure means, or of what a key holds, raises MEASUREMENT_VERSION."""
    found = {}
    for name, scenario in KEYS:
        document = json.loads((KEPT / f"{name}.json").read_bytes())
        found[name, scenario] = key_digest(key_of(document, scenario))
    assert (MEASUREMENT_VERSION, found) == (1, KEYS)
