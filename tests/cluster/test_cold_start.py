"""A cold start on a real node: phases of the pod and of the server explain the whole start."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from inferometer_api.results.result import ResultDocument
from support.cluster.cluster import Cluster
from support.node_runs import make_run, wait_for
from support.operator_installed import operator_installed

_PLUGIN = str(Path(sys.executable).with_name("kubectl-inferometer"))


@pytest.fixture
def installed(cluster: Cluster) -> Iterator[str]:
    """Install the operator by its chart."""
    values = {"load": {"resources": {"cpu": "50m", "memory": "256Mi"}}}
    with operator_installed(cluster, "cold", values) as namespace:
        yield namespace


def test_a_cold_start_is_explained_by_its_phases(
    cluster: Cluster, installed: str, tmp_path: Path
) -> None:
    """Two pods, each from its creation to the first answer, with a gap of at most 5 %."""
    cold = [{"name": "cold", "coldStart": {"repeats": 2}}]
    make_run(cluster, installed, "cold", scenarios=cold)
    wait_for(cluster, installed, "cold", "Finished")
    file = tmp_path / "result.json"
    words = ("result", "cold", "-o", str(file), "--namespace", installed)
    done = subprocess.run(
        [_PLUGIN, *words, "--kubeconfig", str(cluster.kubeconfig)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result = ResultDocument.model_validate_json(file.read_bytes())
    records = [each.cold_start for each in result.scenarios]
    assert len(records) == 2
    for record in records:
        assert record is not None
        names = [each.name for each in record.phases]
        assert names[0] == "scheduled"
        assert {"modelFetched", "containerStarted", "processStarted", "imported"} <= set(names)
        assert names[-1] == "firstAnswer"
        assert record.gap_share <= 0.05, record
        assert record.resident_bytes == 0
