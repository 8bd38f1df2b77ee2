"""A cluster by kind, if Docker works."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from support.cluster.binaries import binary, cache_folder
from support.cluster.messages import say

CONFIG = Path(__file__).parents[3] / "kind-config.yaml"


def docker_works() -> bool:
    """Return whether there is a Docker whose daemon answers."""
    docker = shutil.which("docker")
    return (
        docker is not None
        and subprocess.run([docker, "info"], capture_output=True, check=False).returncode == 0
    )


def with_workers(text: str, name: str, workers: int) -> str:
    """Return a configuration of kind's under this name, its worker repeated so many times."""
    config: dict[str, Any] = yaml.safe_load(text)
    planes = [node for node in config["nodes"] if node["role"] == "control-plane"]
    worker = next(node for node in config["nodes"] if node["role"] == "worker")
    nodes = [*planes, *([dict(worker)] * workers)]
    return yaml.safe_dump(config | {"name": name, "nodes": nodes}, sort_keys=False)


def cluster_name(name: str) -> str:
    """Return what kind calls the cluster: the configuration's own name for the local one."""
    return "inferometer" if name == "local" else f"inferometer-{name}"


def exists(name: str) -> bool:
    """Return whether kind has a cluster of this name."""
    return cluster_name(name) in _kind("get", "clusters").splitlines()


def up(name: str, nodes: int, archives: Sequence[Path]) -> Path:
    """Start a cluster with this many workers, load the images, return its kubeconfig."""
    kubeconfig = _kubeconfig(name)
    kubeconfig.parent.mkdir(parents=True, exist_ok=True)
    text = with_workers(CONFIG.read_text(), cluster_name(name), nodes)
    say(f"Starting a cluster of {nodes} worker(s) with kind: a minute or two.")
    words = ("create", "cluster", "--config", "-", "--kubeconfig", str(kubeconfig))
    _kind(*words, "--wait", "120s", stdin=text)
    for archive in archives:
        _kind("load", "image-archive", str(archive), "--name", cluster_name(name))
    return kubeconfig


def down(name: str) -> None:
    """Delete a cluster and its kubeconfig."""
    _kind("delete", "cluster", "--name", cluster_name(name))
    _kubeconfig(name).unlink(missing_ok=True)


def _kubeconfig(name: str) -> Path:
    return cache_folder() / "kind" / f"{name}.kubeconfig"


def _kind(*words: str, stdin: str | None = None) -> str:
    """Run the kind on the PATH, else one of our own, and return what it writes."""
    program = shutil.which("kind") or str(binary("kind"))
    done = subprocess.run(
        [program, *words], input=stdin, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(
            f"kind {' '.join(words)} ended with {done.returncode}: {done.stderr.strip()}"
        )
    return done.stdout
