"""The documented installation works and leads to a result."""

from collections.abc import Iterator

import pytest

from inferometer_api.crd import NAME, NODE_BENCHMARK_NAME, SUITE_NAME
from support.chart import helm
from support.cluster.cluster import Cluster
from support.cluster.namespaces import fresh_namespace
from support.documented import commands, follow
from support.node_runs import holds, make_run, wait_for

HOW_TO = "docs/how-to/install.md"


def hand_over(cluster: Cluster) -> None:
    """Let the next release adopt each definition if another test installed it."""
    words = ("meta.helm.sh/release-name=inferometer", "meta.helm.sh/release-namespace=bench")
    for name in (NAME, SUITE_NAME, NODE_BENCHMARK_NAME):
        if cluster.kubectl("get", "crd", name, "--ignore-not-found") != "":
            cluster.kubectl("annotate", "crd", name, "--overwrite", *words)
            cluster.kubectl(
                "label", "crd", name, "--overwrite", "app.kubernetes.io/managed-by=Helm"
            )


@pytest.fixture
def bench(cluster: Cluster) -> Iterator[str]:
    """Install the chart for one namespace as the how-to describes, and yield its name."""
    hand_over(cluster)
    follow(commands(HOW_TO, "One namespace"), cluster.kubeconfig)
    yield "bench"
    follow(commands(HOW_TO, "7. Uninstall"), cluster.kubeconfig)
    cluster.kubectl("delete", "namespace", "bench")


def test_the_documentation_leads_to_a_first_result(cluster: Cluster, bench: str) -> None:
    """After the documented installation, `helm test` passes and NOTES' commands give a result."""
    tested = follow(commands(HOW_TO, "3. Verify the installation"), cluster.kubeconfig)
    assert "Phase:          Succeeded" in tested
    assert cluster.get("benchmarkruns", "--namespace", bench)["items"] == []
    notes = helm("get", "notes", "inferometer", "-n", bench, kubeconfig=cluster.kubeconfig).stdout
    steps = [line.removeprefix("  ") for line in notes.splitlines() if line.startswith("  ")]
    # `--watch` would not end, and other tests cover the report.
    script = "\n".join(line for line in steps if "--watch" not in line and "report" not in line)
    printed = follow(script, cluster.kubeconfig)
    assert "condition met" in printed
    assert holds(cluster, bench, "first", "Complete")
    columns = [line.split() for line in printed.splitlines() if line.startswith("first ")]
    assert [line[1:3] for line in columns] == [["Complete", "latency"]]


def test_cluster_mode_serves_every_namespace(cluster: Cluster) -> None:
    """With mode=Cluster and a definition that an admin applied, any namespace can have runs."""
    applied, _ = commands(HOW_TO, "Without the rights of a cluster administrator").splitlines()[:2]
    follow(applied, cluster.kubeconfig)
    install = commands(HOW_TO, "Every namespace").rstrip() + " --set crds.install=false"
    follow(install, cluster.kubeconfig)
    try:
        with fresh_namespace(cluster, "anywhere") as namespace:
            make_run(cluster, namespace, "a-run")
            wait_for(cluster, namespace, "a-run", "Complete")
            wait_for(cluster, namespace, "a-run", "Finished")
    finally:
        follow("helm uninstall inferometer --namespace inferometer-system", cluster.kubeconfig)
        cluster.kubectl("delete", "namespace", "inferometer-system")
