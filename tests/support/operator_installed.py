"""An operator in a namespace of a test's cluster, installed by the chart."""

import functools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from inferometer_api.crd import NAME, NODE_BENCHMARK_NAME, SUITE_NAME
from support.chart import CHART, Json, helm
from support.cluster.cluster import Cluster
from support.cluster.namespaces import fresh_namespace
from support.waiting import wait_until

_NAMES = (NAME, SUITE_NAME, NODE_BENCHMARK_NAME)
DEFINITIONS = tuple(Path(CHART, "files", f"{name}.yaml") for name in _NAMES)
INSTALL_TIMEOUT = "240s"


@contextmanager
def operator_installed(
    cluster: Cluster,
    prefix: str,
    values: Json | None = None,
    prepare: Callable[[str], None] = lambda _: None,
) -> Iterator[str]:
    """Yield a fresh namespace that admits only restricted pods, and that an operator serves.

    The definition is applied apart from the chart, so that several releases may share a cluster.
    `prepare` is called with the namespace before the chart is installed.
    """
    for file in DEFINITIONS:
        cluster.kubectl("apply", "--server-side", "-f", str(file))
    for name in _NAMES:
        wait_until(functools.partial(_is_established, cluster, name), f"The definition {name}")
    with fresh_namespace(cluster, prefix) as namespace:
        prepare(namespace)
        # One replica is enough where no fail-over is tried, and leaves room on a small node.
        settled = {"crds": {"install": False}, "operator": {"replicas": 1}} | (values or {})
        done = helm(
            *("install", "inferometer", CHART, "--namespace", namespace),
            *("--wait", "--timeout", INSTALL_TIMEOUT, "--values", "-"),
            stdin=json.dumps(settled),
            kubeconfig=cluster.kubeconfig,
        )
        if done.returncode != 0:
            raise RuntimeError(f"The chart could not be installed: {done.stderr}")
        try:
            yield namespace
        finally:
            words = ("uninstall", "inferometer", "--namespace", namespace, "--ignore-not-found")
            helm(*words, kubeconfig=cluster.kubeconfig)


def _is_established(cluster: Cluster, name: str) -> bool:
    """Return whether the definition is served; `kubectl wait` fails while it has no status."""
    found = json.loads(cluster.kubectl("get", "crd", name, "-o", "json"))
    conditions = found.get("status", {}).get("conditions") or []
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)
