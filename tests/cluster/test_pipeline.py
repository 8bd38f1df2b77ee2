"""Steps of a manifest in the server's pod: their shares are measured, and Python is refused."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from support.cluster.cluster import Cluster
from support.node_claim import claim_on_node
from support.node_runs import (
    SLOW_SECONDS,
    condition,
    make_config_map,
    make_run,
    run_result,
    wait_for,
)
from support.operator_installed import operator_installed
from support.waiting import wait_until

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = EXAMPLES / "26-pipeline"
STEPS = ["decode", "resize", "crop", "normalize", "layout", "softmax", "topK"]
SHORT = {"warmUpSeconds": 0, "minDurationSeconds": 2, "minQueries": 24}
PYTHON = """
preprocess: |
  def preprocess(context, sample):
      return {"input": np.zeros((3, 224, 224), np.float32)}
"""


@pytest.fixture(scope="module")
def namespace(cluster: Cluster) -> Iterator[str]:
    """Install an operator, and follow the commands in the example's comment."""
    load = {"resources": {"cpu": "50m", "memory": "512Mi"}}
    with operator_installed(cluster, "pipeline", {"load": load}) as name:
        make_config_map(cluster, name, "pipeline", FILES)
        yield name


def test_the_example_measures_steps_in_load_generator_and_server(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    """All predictions are right in both; the server's pod has decoded and resized, and says so."""
    text = (EXAMPLES / "26-pipeline.yaml").read_text()
    suite = yaml.safe_load(text.replace("file:26-pipeline/", "configmap://pipeline/"))
    suite["spec"]["template"]["spec"]["validity"] |= SHORT
    del suite["spec"]["repeats"]
    cluster.kubectl("create", "--namespace", namespace, "-f", "-", stdin=json.dumps(suite))

    def ended() -> bool:
        found = cluster.get("bms", "pipeline", "--namespace", namespace)
        return found.get("status", {}).get("phase") in {"Complete", "Failed"}

    wait_until(ended, "the end of the suite", deadline_seconds=SLOW_SECONDS, poll_seconds=0.5)
    runs = cluster.get("bmr", "--namespace", namespace)["items"]
    found = {}
    for run in runs:
        result = run_result(cluster, namespace, run["metadata"]["name"], tmp_path)
        (scenario,) = result.scenarios
        assert scenario.accuracy is not None, result.outcome
        (figure,) = scenario.accuracy.figures
        assert figure.correct == figure.samples > 0
        spent = scenario.steps[0].server_time
        assert spent is not None
        assert all(each.share > 0 for each in spent.steps)
        (summary,) = run["status"]["scenarios"]
        steps = summary["serverTime"].get("steps", [])
        shown = {each["step"]: each["shareMillionths"] for each in steps}
        assert shown == {each.step: round(each.share * 1e6) for each in spent.steps}
        found[run["spec"]["model"]["pipeline"]] = list(shown)
    assert found == {"Client": [], "Server": STEPS}


def test_python_of_an_author_runs_in_no_pod(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    """The server refuses to start, and the run is Failed with its sentence."""
    manifest = yaml.safe_load((FILES / "model.yaml").read_text())
    manifest["inputs"] = [{"name": "input"}]
    (tmp_path / "model.yaml").write_text(yaml.safe_dump(manifest) + PYTHON)
    make_config_map(cluster, namespace, "python", tmp_path / "model.yaml")
    model = {
        "uri": "zoo://classification/mobilenet_v3_small",
        "manifest": {"uri": "configmap://python/model.yaml"},
        "pipeline": "Server",
    }
    dataset = {"uri": "configmap://pipeline/photographs.zip"}
    accuracy = [{"name": "a", "accuracy": {"dataset": dataset, "metrics": ["Top1"]}}]
    make_run(cluster, namespace, "python", model=model, scenarios=accuracy)
    wait_for(cluster, namespace, "python", "Failed")
    failed = condition(cluster, namespace, "python", "Failed")
    assert failed["reason"] == "ServerRefused", failed
    assert "Python steps, which run only in local runs" in failed["message"]


def test_a_manifest_on_a_claim_is_resolved_before_its_server_starts(
    cluster: Cluster, namespace: str
) -> None:
    """By the init container, with the engine of the chart's image; one that fits is measured."""
    with claim_on_node(cluster, namespace, "models") as folder:
        manifest = yaml.safe_load((FILES / "model.yaml").read_text())
        for name, version in (("old", "<1.5"), ("fits", ">=1.5 <2")):
            framework = {"name": "onnxruntime", "version": version}
            text = yaml.safe_dump(manifest | {"framework": framework})
            (folder / f"{name}.yaml").write_text(text)
            model = {
                "uri": "zoo://classification/mobilenet_v3_small",
                "manifest": {"uri": f"pvc://models/{name}.yaml"},
            }
            make_run(cluster, namespace, name, model=model)
        wait_for(cluster, namespace, "old", "Failed")
        failed = condition(cluster, namespace, "old", "Failed")
        assert failed["reason"] == "TaskRefused", failed
        assert "needs onnxruntime <1.5, and nothing here satisfies that" in failed["message"]
        wait_for(cluster, namespace, "fits", "Complete")
