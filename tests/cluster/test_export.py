"""Results are exported from real pods: to an S3-compatible store, and to a claim."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from inferometer_api.plan.cluster_objects import ALLOW_USE_LABEL
from inferometer_api.results.result import ResultDocument
from support.cluster import addresses
from support.cluster.cluster import Cluster
from support.node_claim import claim_on_node
from support.node_runs import condition, make_run, status, wait_for
from support.object_store import ACCESS_KEY_ID, REGION, SECRET_ACCESS_KEY, store_binary
from support.operator_installed import operator_installed
from support.requirements import cannot_run

PORT = 7070


@pytest.fixture(scope="module")
def namespace(cluster: Cluster) -> Iterator[str]:
    """Install an operator that lets runs name Secrets."""
    load = {"resources": {"cpu": "50m", "memory": "256Mi"}}
    values = {"allowSecrets": True, "maxConcurrentRuns": 4, "load": load}
    with operator_installed(cluster, "export", values) as name:
        yield name


@pytest.fixture(scope="module")
def bucket(cluster: Cluster, namespace: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Start a store in the cluster's network, with its keys in a Secret; return a bucket."""
    program = store_binary()
    if isinstance(program, str):
        cannot_run(program)
    found = tmp_path_factory.mktemp("store") / "buckets" / "results"
    found.mkdir(parents=True)
    at = f"{addresses.SWITCH}:{PORT}"
    keys = ("--access", ACCESS_KEY_ID, "--secret", SECRET_ACCESS_KEY, "--region", REGION)
    cluster.start_in_control_plane("store", [program, *keys, "--port", at, "posix", found.parent])
    here = ("--namespace", namespace)
    literals = {
        "accessKeyId": ACCESS_KEY_ID,
        "secretAccessKey": SECRET_ACCESS_KEY,
        "endpoint": f"http://{at}",
    }
    words = [f"--from-literal={key}={value}" for key, value in literals.items()]
    cluster.kubectl("create", "secret", "generic", "store", *words, *here)
    cluster.kubectl("label", "secret", "store", f"{ALLOW_USE_LABEL}=export", *here)
    return found


@pytest.fixture(scope="module")
def claim(cluster: Cluster, namespace: str) -> Iterator[Path]:
    """Bind a claim to a folder of the node; yield the folder."""
    with claim_on_node(cluster, namespace, "results") as folder:
        yield folder


def _assert_exported(cluster: Cluster, namespace: str, run: str, folder: Path) -> None:
    wait_for(cluster, namespace, run, "Complete")
    wait_for(cluster, namespace, run, "Finished")
    complete = condition(cluster, namespace, run, "Complete")
    assert complete["reason"] == "Measured", complete
    result = status(cluster, namespace, run)["result"]
    assert result["configMaps"]
    (place,) = folder.iterdir()
    assert result["exported"]["uri"].endswith(f"/{place.name}/result.json")
    document = (place / "result.json").read_bytes()
    assert hashlib.sha256(document).hexdigest() == result["exported"]["sha256"]
    assert ResultDocument.read_json(document).run.name == run


def test_a_result_is_exported_to_a_store(cluster: Cluster, namespace: str, bucket: Path) -> None:
    """By the exporter of a real load pod, with the keys of a Secret."""
    export = {"uri": "s3://results/of/team", "credentialsSecret": "store"}
    make_run(cluster, namespace, "to-store", retention={"export": export})
    _assert_exported(cluster, namespace, "to-store", bucket / "of" / "team")


def test_a_result_is_exported_to_a_claim(cluster: Cluster, namespace: str, claim: Path) -> None:
    """The kubelet lets the exporter's group write there."""
    make_run(cluster, namespace, "to-claim", retention={"export": {"uri": "pvc://results/of"}})
    _assert_exported(cluster, namespace, "to-claim", claim / "of")


def test_an_export_that_is_refused_leaves_the_result(
    cluster: Cluster, namespace: str, bucket: Path
) -> None:
    """The condition has the store's own words."""
    export = {"uri": "s3://nowhere/of/team", "credentialsSecret": "store"}
    make_run(cluster, namespace, "refused", retention={"export": export})
    wait_for(cluster, namespace, "refused", "Finished")
    complete = condition(cluster, namespace, "refused", "Complete")
    assert complete["reason"] == "ExportFailed", complete
    assert "NoSuchBucket" in complete["message"]
    assert status(cluster, namespace, "refused")["result"]["configMaps"]
