"""Renders the node agent's chart, and installs it on real nodes."""

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import yaml
from docgen.files import CHECKOUT

from inferometer_api.nodes.image_removal import REMOVAL_SUFFIX
from support.chart import Json, helm, objects_of, of_kind
from support.cluster.cluster import Cluster
from support.cluster.namespaces import fresh_namespace

AGENT_CHART = CHECKOUT / "helm" / "inferometer-agent"
AGENTS = "inferometer-agents"
"""The namespace of the tests."""
CACHE = "inferometer-agent-model-cache"
"""The name of the model cache's objects."""


def agents(values: Json | None = None, *, release: str = "inferometer-agent") -> list[Json]:
    """Return the objects that the chart makes without a cluster; an error of helm's is raised."""
    words = ("template", release, AGENT_CHART, "--namespace", AGENTS, "--values", "-")
    done = helm(*words, stdin=json.dumps(values or {}))
    if done.returncode != 0:
        raise ValueError(done.stderr)
    return objects_of(done.stdout)


def agents_notes(values: Json, folder: Path) -> str:
    """Return what an installation says at its end: a copy of the chart makes it an object."""
    chart = Path(shutil.copytree(AGENT_CHART, folder / "chart"))
    text = (chart / "templates" / "NOTES.txt").read_text(encoding="utf-8")
    (chart / "templates" / "notes.yaml").write_text(
        f'{{{{- define "notes" -}}}}{text}{{{{- end -}}}}\n'
        'notes: {{ include "notes" . | toJson }}\n',
        encoding="utf-8",
    )
    words = ("template", "inferometer-agent", chart, "--namespace", AGENTS, "--values", "-")
    done = helm(*words, "--show-only", "templates/notes.yaml", stdin=json.dumps(values))
    assert done.returncode == 0, done.stderr
    return str(yaml.safe_load(done.stdout)["notes"])


def agent_pods(objects: list[Json]) -> Iterator[tuple[str, Json]]:
    """Yield the name and the pods' spec of each DaemonSet."""
    for made in of_kind(objects, "DaemonSet"):
        yield made["metadata"]["name"], made["spec"]["template"]["spec"]


@contextmanager
def agents_namespace(cluster: Cluster) -> Iterator[str]:
    """Yield the name of a fresh namespace that admits host paths."""
    with fresh_namespace(cluster, "agents") as namespace:
        label = "pod-security.kubernetes.io/enforce=privileged"
        cluster.kubectl("label", "namespace", namespace, label, "--overwrite")
        yield namespace


@contextmanager
def agents_installed(
    cluster: Cluster,
    namespace: str,
    *operators: Json,
    cache: Json | None = None,
    repositories: Sequence[str] = (),
) -> Iterator[None]:
    """Have an agent on every node, which these accounts of operators may find.

    With `cache`, the values of modelCache, every node also has a model cache; with `repositories`
    an image remover for them.
    """
    values: Json = {"operators": list(operators), "cgroupV1Controllers": v1_controllers()}
    names = ["inferometer-agent", "inferometer-agent-gpu"]
    if cache is not None:
        values["modelCache"] = {"enabled": True, **cache}
        names.append(CACHE)
    if repositories:
        values["coldStart"] = {"allowImageRemoval": True, "repositories": list(repositories)}
        names.append(f"inferometer-agent{REMOVAL_SUFFIX}")
    # helm --wait waits for all agents but maxUnavailable: on one node for none.
    done = helm(
        *("install", "agents", AGENT_CHART, "--namespace", namespace, "--values", "-"),
        stdin=json.dumps(values),
        kubeconfig=cluster.kubeconfig,
    )
    if done.returncode != 0:
        raise RuntimeError(f"The agents' chart could not be installed: {done.stderr}")
    try:
        for name in names:
            words = ("rollout", "status", f"daemonset/{name}", "--timeout=120s")
            cluster.kubectl(*words, "--namespace", namespace)
        yield
    finally:
        helm("uninstall", "agents", "--namespace", namespace, kubeconfig=cluster.kubeconfig)


def v1_controllers() -> list[str]:
    """Return which controllers of control groups v1 this machine has; none if it has v2."""
    names = ("cpu,cpuacct", "cpu", "cpuacct", "memory")
    folders = [Path("/sys/fs/cgroup") / name for name in names]
    return [each.name for each in folders if each.is_dir() and not each.is_symlink()]
