"""NodeBenchmarks on a stage, and the scripts of their pods."""

import json
from typing import Any

from inferometer_api.nodes.wire_rates import WireRates
from inferometer_api.plan.cluster_objects import NODE_BENCHMARK, WIRE_CLIENT
from support.api_client import Object
from support.fake_pod import Pod
from support.node_documents import a_figure, a_node_document
from support.stage import Stage

NAME = "workers"


def a_benchmark(**spec: Any) -> Object:
    """Return a NodeBenchmark."""
    return {
        "apiVersion": "inferometer.dev/v1alpha1",
        "kind": "NodeBenchmark",
        "metadata": {"name": NAME},
        "spec": spec,
    }


def node_of(pod: Pod) -> str:
    """Return the node that a pod is for."""
    affinity = pod.object["spec"]["affinity"]["nodeAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    return str(term["matchFields"][0]["values"][0])


def containers(pod: Pod) -> list[str]:
    """Return the names of a pod's containers."""
    return [each["name"] for each in pod.object["spec"]["containers"]]


def measure_node_pod(pod: Pod, **changes: Any) -> None:
    """Measure the node, or its wire, and print the document; a server only starts."""
    pod.bind(node_of(pod))
    pod.start()
    if containers(pod)[0] == NODE_BENCHMARK:
        document = a_node_document(node_of(pod), **changes)
        pod.log('{"event": "progress"}', document.model_dump_json(exclude_none=True))
        pod.end(0)
    elif containers(pod)[0] == WIRE_CLIENT:
        pod.log("A library prints.", wire_rates(pod).model_dump_json(exclude_none=True))
        pod.end_container(WIRE_CLIENT, 0)


def wire_rates(pod: Pod) -> WireRates:
    """Return what the client of a wire finds for the targets of its command."""
    words = pod.object["spec"]["containers"][0]["command"]
    targets = [words[at + 1] for at, word in enumerate(words) if word == "--target"]
    missing = [words[at + 1 : at + 3] for at, word in enumerate(words) if word == "--unavailable"]
    return WireRates(
        figures=[a_figure(f"{name}/roundTrip", "ns", 9e4, protocol="HTTP") for name in targets],
        unavailable=dict(missing),
    )


def create_benchmark(stage: Stage, **spec: Any) -> None:
    """Create a NodeBenchmark of the stage's nodes."""
    selector = {"nodeSelector": {"pool": stage.namespace}}
    stage.api.create("NodeBenchmark", stage.namespace, a_benchmark(**selector, **spec))


def benchmark_status(stage: Stage) -> Object:
    """Return its status."""
    found = stage.api.found("NodeBenchmark", stage.namespace, NAME) or {}
    status: Object = found.get("status") or {}
    return status


def benchmark_condition(stage: Stage, kind: str) -> Object:
    """Return one of its conditions, empty if it has none of that type."""
    conditions = benchmark_status(stage).get("conditions") or []
    return next((each for each in conditions if each["type"] == kind), {})


def finished_benchmark(stage: Stage) -> Object:
    """Wait for its end, and return its status."""
    stage.wait_for(
        lambda: benchmark_condition(stage, "Finished").get("status") == "True",
        lambda: f"the end: {json.dumps(benchmark_status(stage), indent=1)}\n{stage.logs()}",
    )
    return benchmark_status(stage)


def jobs_of(stage: Stage) -> list[str]:
    """Return the names of the Jobs of the stage."""
    return [each["metadata"]["name"] for each in stage.api.all("Job", stage.namespace)]
