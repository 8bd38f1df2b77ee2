"""The Jobs that bring the models of a suite to the nodes before its first run."""

from pathlib import Path
from typing import Any

import yaml

from inferometer_api.plan.availability import unavailable
from inferometer_api.suite.status import SuiteStatus
from inferometer_operator.manifests.owner import Manifest, Owner
from inferometer_operator.manifests.prefetch_job import PREFETCH_SECONDS, prefetch_jobs
from inferometer_operator.reconcile.suite.cells import SuiteObserved, decide
from inferometer_operator.reconcile.suite.draft import SuiteDraft
from support.cluster_objects import EPOCH
from support.manifests import FULL, PLAIN, read
from support.runs import a_run
from support.suites import a_suite, parsed, planned

OWNER = Owner("a-suite", "team", "0c9e8f3a-1111-4222-8333-444455556666", "BenchmarkSuite")
CACHED = {"uri": "https://models/m.onnx", "sha256": "ab" * 32, "cache": "Node"}


def _jobs(*runs: dict[str, Any]) -> list[Manifest]:
    return list(prefetch_jobs([read(a_run(**each)) for each in runs], OWNER, PLAIN).values())


def test_each_model_is_fetched_once_for_each_placement() -> None:
    """Cells that differ in other ways share a Job; those without the cache have none."""
    on_a = {"placement": {"nodeSelector": {"kubernetes.io/hostname": "a"}}}
    on_b = {"placement": {"nodeSelector": {"kubernetes.io/hostname": "b"}}}
    found = _jobs(
        {"model": CACHED, "server": on_a},
        {"model": CACHED, "server": on_a | {"threads": 2}},
        {"model": CACHED, "server": on_b},
        {"model": CACHED | {"sha256": "cd" * 32}, "server": on_a},
        {"server": on_a},
    )
    selectors = [each["spec"]["template"]["spec"]["nodeSelector"] for each in found]
    assert [each["kubernetes.io/hostname"] for each in selectors] == ["a", "b", "a"]


def test_its_pod_mounts_the_volume_and_ends() -> None:
    """It has the keys of no store, a deadline, and the suite as its owner."""
    model = CACHED | {"uri": "s3://bucket/m.onnx", "credentialsSecret": "keys"}
    (job,) = _jobs({"model": model})
    assert job["spec"]["activeDeadlineSeconds"] == PREFETCH_SECONDS
    assert job["spec"]["backoffLimit"] == 0
    assert job["metadata"]["ownerReferences"][0]["kind"] == "BenchmarkSuite"
    assert len(job["metadata"]["name"]) <= 57
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["command"] == ["python3", "-c", "pass"]
    assert not [each for each in container["env"] if "valueFrom" in each]
    (volume,) = (each["csi"] for each in pod["volumes"] if "csi" in each)
    assert volume["nodePublishSecretRef"] == {"name": "keys"}
    assert any(each["mountPath"].endswith("model-cache") for each in container["volumeMounts"])
    assert "podAntiAffinity" in pod["affinity"]


def test_it_goes_where_servers_on_gpus_go() -> None:
    """It tolerates the taints of GPU nodes, without a GPU of its own."""
    run = read(a_run(model=CACHED, server={"device": "GPU"}))
    (job,) = prefetch_jobs([run], OWNER, FULL).values()
    pod = job["spec"]["template"]["spec"]
    assert {"key": "gpu", "operator": "Exists"}.items() <= pod["tolerations"][-1].items()
    assert "nvidia.com/gpu" not in pod["containers"][0]["resources"]["limits"]


def test_no_run_starts_while_models_are_fetched() -> None:
    """The condition says what is waited for; afterwards the first run is created."""
    data = a_suite()
    plan, spec = planned(data), parsed(data).spec
    draft = SuiteDraft(SuiteStatus(), EPOCH, 1)
    waiting = decide(spec, plan, draft, SuiteObserved({}, {}, preparing="1 of 2 are there."))
    assert waiting.create == ()
    (complete,) = (each for each in waiting.status.conditions if each.type == "Complete")
    assert (complete.reason, complete.message) == ("Running", "1 of 2 are there.")
    draft = SuiteDraft(waiting.status, EPOCH, 1)
    assert decide(spec, plan, draft, SuiteObserved({}, {})).create == (0,)


def test_the_example_measures_both_ways_and_fetches_the_model_once() -> None:
    """Both runs are available in clusters; the model is brought to the nodes for one of them."""
    text = (Path(__file__).parents[3] / "examples" / "25-model-cache.yaml").read_text()
    suite = yaml.safe_load(text)
    suite["metadata"] |= {"namespace": "team", "uid": OWNER.uid}
    runs = [each.run for each in planned(suite).runs]
    assert {each.spec.model.cache for each in runs} == {None, "Node"}
    assert len(runs) == 2
    assert [unavailable(each, place="Cluster") for each in runs] == [(), ()]
    assert len(prefetch_jobs(runs, OWNER, PLAIN)) == 1
