"""kind accepts every field of kind-config.yaml."""

import subprocess
from typing import Any

import pytest
import yaml

from support.cluster import kind
from support.cluster.binaries import binary


def _decode(text: str) -> Any:
    """Return what kind's own package reads in a configuration; RuntimeError if it refuses."""
    decoder = binary("decode-kind-config")
    done = subprocess.run([decoder], input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return yaml.safe_load(done.stdout)


def test_kind_reads_the_configuration_strictly() -> None:
    """Its own Go package finds a control plane and a worker, of Kubernetes 1.34 by digest."""
    decoded = _decode(kind.CONFIG.read_text())
    assert decoded["name"] == kind.cluster_name("local")
    assert [node["role"] for node in decoded["nodes"]] == ["control-plane", "worker"]
    for node in decoded["nodes"]:
        assert node["image"].startswith("kindest/node:v1.34.")
        assert "@sha256:" in node["image"]


def test_kind_reads_what_more_nodes_make_of_it() -> None:
    """The same configuration with more workers and another name is one that kind takes."""
    decoded = _decode(kind.with_workers(kind.CONFIG.read_text(), "other", 3))
    assert decoded["name"] == "other"
    assert [node["role"] for node in decoded["nodes"]] == ["control-plane", *["worker"] * 3]


def test_kind_refuses_a_field_that_it_does_not_know() -> None:
    """A misspelt field name is an error, and is not ignored."""
    with pytest.raises(RuntimeError, match="field workers not found"):
        _decode(kind.CONFIG.read_text() + "workers: 2\n")
