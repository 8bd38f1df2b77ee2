"""Tests of availability: what this version does not support is refused by its path."""

import re
from typing import Any, get_args

import pytest
from docgen.benchmarkrun_page import benchmarkrun_page
from docgen.refusals import REFUSED, run_with

from inferometer_api.crd import custom_resource_definition
from inferometer_api.plan.availability import unavailable
from inferometer_api.runtimes.descriptor import Place
from inferometer_api.spec.run import BenchmarkRun
from support.run_bounds import fields, run_schema
from support.runs import Run, a_run, a_scenario, an_external_run, with_value


def refusals(run: Run, place: Place = "Local") -> tuple[str, ...]:
    """Return the refusals of a valid run."""
    return unavailable(BenchmarkRun.model_validate(run), place=place)


def _set(*place: str, to: Any) -> Run:
    return with_value(a_run(), ("spec", *place), to)


def _cold_without_image(**spec: Any) -> Run:
    run = a_scenario(coldStart={"state": "Nothing"})
    server = {"placement": {"nodeSelector": {"kubernetes.io/hostname": "a"}}}
    for name, value in spec.items():
        if name == "server":
            server |= value
        else:
            run = with_value(run, ("spec", name), value)
    return with_value(run, ("spec", "server"), server)


def _cold_with_others(name: str, uri: str) -> Run:
    """Return a run whose cold start comes before a mix with another model."""
    run = _with_others(name, uri)
    cold = {"name": "cold", "coldStart": {}}
    return with_value(run, ("spec", "scenarios"), [cold, *run["spec"]["scenarios"]])


_SECURE = {"runtime": "External", "external": {"url": "https://h"}}
_DIGITS = {"dataset": {"uri": "builtin://digits"}, "metrics": ["Top1"]}
_CLIENT_FILES = {"clientCertificateFile": "c", "clientKeyFile": "k"}

AVAILABLE: dict[str, Run] = {
    "the smallest run": a_run(),
    "a GPU": _set("server", to={"device": "GPU", "gpu": {"count": 1}}),
    "gRPC": _set("load", to={"protocol": "GRPC", "streamsPerConnection": 4, "connections": 2}),
    "a file of inputs": _set("load", "inputs", to={"file": {"uri": "file:a.npz"}}),
    "a file as model": _set("model", to={"uri": "file:model.onnx"}),
    "a model from https": _set("model", to={"uri": "https://h/m", "sha256": "0" * 64}),
    "Poisson": a_scenario(server={"targetQps": 1}),
    "constant": a_scenario(server={"targetQps": 1, "arrivals": "Constant"}),
    "batch": a_scenario(batch={"batchSizes": [1]}),
    "a search": a_scenario(findPeak={"latencyBoundMicroseconds": 1}),
    "repeats": _set("validity", to={"repeats": 2, "warmUp": "UntilSteady"}),
    "a fleet": _set("load", "workers", to=2),
    "multiStream": a_scenario(multiStream={}),
    "concurrency": a_scenario(concurrency={"clients": [1]}),
    "offline": a_scenario(offline={}),
    "burst": a_scenario(burst={"baseQps": 1, "burstQps": 2, "burstSeconds": 1, "periodSeconds": 2}),
    "no power": _set("telemetry", to={"power": "Disabled"}),
    "placement": _set("server", "placement", to={"nodeSelector": {"a": "b"}}),
    "an external url": an_external_run(),
    "TLS by the machine's authorities": an_external_run(server=_SECURE),
    "TLS by a name": an_external_run(server=_SECURE, load={"tls": {"serverName": "n"}}),
    "an external gRPC url": an_external_run(
        server={"runtime": "External", "external": {"url": "grpc://h:1"}},
        load={"protocol": "GRPC"},
    ),
}

AVAILABLE_LOCALLY: dict[str, Run] = {
    "TLS with files": an_external_run(
        server=_SECURE, load={"tls": {"caFile": "c", **_CLIENT_FILES}, "headersFile": "h"}
    ),
    "steps in the server": a_run(
        model={"uri": "file:m.onnx", "pipeline": "Server"},
        scenarios=[{"name": "a", "accuracy": _DIGITS}],
    ),
    "headers to a server of ours": _set("load", "headersFile", to="h"),
}

_S3 = {"uri": "s3://b/m.onnx", "credentialsSecret": "s"}

AVAILABLE_IN_A_CLUSTER: dict[str, Run] = {
    "a cold start without image": _cold_without_image(),
    **{
        name: run
        for name, run in AVAILABLE.items()
        if name not in {"a file of inputs", "a file as model"}
    },
    "replicas": _set("server", "replicas", to=3),
    "KServe": _set("server", to={"runtime": "KServe", "threads": 2}),
    "steps in the server": a_run(
        model={
            "uri": "zoo://classification/resnet50",
            "manifest": {"uri": "configmap://a/m"},
            "pipeline": "Server",
        },
        scenarios=[{"name": "a", "accuracy": _DIGITS}],
    ),
    "suspend": _set("suspend", to=True),
    "cancel": _set("cancel", to=True),
    "a Service": an_external_run(
        server={"runtime": "External", "external": {"service": {"name": "s", "port": 1}}}
    ),
    "TLS with Secrets": an_external_run(
        server={"runtime": "External", "external": {"service": {"name": "s", "port": 1}}},
        load={"tls": {"caSecret": "c", "clientSecret": "d"}, "headersSecret": "h"},
    ),
    "a claim": _set("model", to={"uri": "pvc://c/a/m%20n.onnx"}),
    "a store": _set("model", to=_S3),
    "a MIG slice": _set("server", to={"device": "GPU", "gpu": {"resource": "n.com/mig-1g"}}),
    **{
        f"inputs from {uri}": _set("load", "inputs", to={"file": {"uri": uri, "sha256": "0" * 64}})
        for uri in ("configmap://a/b.npz", "pvc://c/a/b.npz", "https://h/b.npz")
    },
    "inputs of the model's store": a_run(
        model=_S3, load={"inputs": {"file": {"uri": "s3://b/i.npz"}}}
    ),
}


def _of_bricks(*names: str) -> dict[str, Any]:
    models = sorted(f"zoo://{each}" for each in names)
    return {"name": "layers", "bricks": {"models": models}}


def _mix(*models: str) -> list[dict[str, Any]]:
    return [{"model": each, "weight": 1} for each in dict.fromkeys((*models, "resnet50"))]


def _with_others(model: str, *uris: str) -> Run:
    scenario = {"name": "a", "singleStream": {}, "mix": _mix(model)}
    return a_run(otherModels=[{"uri": uri} for uri in uris], scenarios=[scenario])


_NO = "is not available in this version"

UNAVAILABLE: tuple[tuple[Run, str], ...] = (
    (
        _set("scenarios", to=[_of_bricks("classification/resnet50", "classification/nosuch")]),
        'spec.scenarios[0].bricks.models[0]: "classification/nosuch" is not in the model zoo.',
    ),
    (
        _set("server", to={"runtime": "MLServer", "batching": {"maxBatchSize": 8}}),
        "spec.server.batching.maxDelayMicroseconds: MLServer joins only requests that may wait",
    ),
    (
        _set("server", to={"runtime": "MLServer", "precision": "BF16"}),
        f"spec.server.precision: BF16 {_NO}; available: Default.",
    ),
    (
        _set("server", to={"runtime": "Triton", "tritonBackend": "Python", "device": "GPU"}),
        "spec.server.tritonBackend: Python runs on CPUs only here; use OnnxRuntime",
    ),
    (
        _set("server", to={"device": "GPU", "gpu": {"count": 2}}),
        f"spec.server.gpu.count: 2 {_NO}; available: 1.",
    ),
    (
        an_external_run(load={"tls": {"serverName": "n"}}),
        "spec.load.tls: the server's url begins with http://, which is without TLS; write https://",
    ),
    (
        _set("load", "tls", to={"serverName": "n"}),
        "spec.load.tls: the server that the run starts has no TLS",
    ),
    (
        a_scenario(singleStream={}, mix=_mix("resnet50", "other")),
        "spec.scenarios[0].mix[1].model: the server holds resnet50, and not other; name one of",
    ),
)
"""What neither a laptop nor a cluster can do yet."""

UNAVAILABLE_LOCALLY: tuple[tuple[Run, str], ...] = (
    (
        _with_others("m", "pvc://c/m.onnx"),
        "spec.otherModels[0].uri: pvc:// needs a cluster",
    ),
    (
        _with_others("m", "file:a/m.onnx", "file:b/m.onnx"),
        "spec.otherModels[1].uri: another model of the server has the name m",
    ),
    (
        _set("server", to={"runtime": "KServe"}),
        "spec.server.runtime: KServe runs in clusters only; available here: ",
    ),
    (
        a_scenario(coldStart={"state": "Nothing"}),
        "spec.scenarios[0].coldStart.state: a local run has no image to remove",
    ),
    (_set("server", "replicas", to=2), "spec.server.replicas: a local run has one server, not 2"),
    (
        an_external_run(
            server={"runtime": "External", "external": {"service": {"name": "s", "port": 1}}}
        ),
        "spec.server.external.service: a local run has no Services",
    ),
    (_set("load", "headersSecret", to="h"), "spec.load.headersSecret: a local run has no Secrets"),
    (
        an_external_run(server=_SECURE, load={"tls": {"caSecret": "c"}}),
        "spec.load.tls.caSecret: a local run has no Secrets; use caFile.",
    ),
    (
        an_external_run(server=_SECURE, load={"tls": {"clientSecret": "c"}}),
        "spec.load.tls.clientSecret: a local run has no Secrets; use clientCertificateFile and",
    ),
    *(
        (
            _set("load", "inputs", to={"file": {"uri": f"{scheme}a/b", "sha256": "0" * 64}}),
            f"spec.load.inputs.file.uri: a local run reads file: only, not {scheme};",
        )
        for scheme in ("configmap://", "https://", "pvc://", "s3://")
    ),
    *(
        (_set("model", "uri", to=f"{scheme}a/b"), f"spec.model.uri: {scheme} needs a cluster")
        for scheme in ("pvc://", "s3://")
    ),
    (
        _set("model", to={"uri": "https://h/m", "sha256": "0" * 64, "cache": "Node"}),
        "spec.model.cache: a local run has no model cache of a node",
    ),
    (_set("suspend", to=True), "spec.suspend: a local run cannot be suspended"),
    (_set("cancel", to=True), "spec.cancel: a local run is cancelled with Ctrl-C"),
)

UNAVAILABLE_IN_A_CLUSTER: tuple[tuple[Run, str], ...] = (
    (
        _with_others("m", "file:m.onnx"),
        "spec.otherModels[0].uri: pods cannot reach file: on your machine; available in a cluster",
    ),
    (
        _with_others("m", "s3://bucket/m.onnx"),
        "spec.otherModels[0].uri: s3:// is read with the keys of the model's store",
    ),
    (
        a_scenario(coldStart={"state": "Nothing"}),
        "spec.scenarios[0].coldStart.state: Nothing removes the server's image from one node; name",
    ),
    (
        _cold_without_image(server={"runtime": "Triton"}),
        "spec.scenarios[0].coldStart.state: only images of Inferometer are removed from nodes",
    ),
    (
        _cold_without_image(model={"uri": "https://h/m", "sha256": "0" * 64, "cache": "Node"}),
        "spec.scenarios[0].coldStart.state: the node's cache has the model; leave",
    ),
    (
        a_scenario(coldStart={"state": "ModelCached"}),
        "spec.scenarios[0].coldStart.state: the pod of each start fetches the model anew",
    ),
    (
        with_value(a_scenario(coldStart={}), ("spec", "model"), {"uri": "pvc://models/m.onnx"}),
        "spec.model.uri: it is not known which pages of a claim's file are in memory before a cold",
    ),
    (
        _cold_with_others("m", "pvc://models/m.onnx"),
        "spec.otherModels[0].uri: it is not known which pages of a claim's file are in memory",
    ),
    (
        _set("server", to={"runtime": "KServe", "replicas": 2}),
        "spec.server.replicas: the requests reach 2 pods through KServe's one Service, which",
    ),
    (
        _set("model", to={"uri": "file:m.onnx"}),
        (
            "spec.model.uri: pods cannot reach file: on your machine; available "
            "in a cluster: zoo://, https://, pvc://, s3://"
        ),
    ),
    (
        _set("model", to={"uri": "zoo://classification/resnet5"}),
        (
            'spec.model.uri: "classification/resnet5" is not in the model zoo. The nearest names '
            "are classification/resnet50"
        ),
    ),
    (
        _set("load", "inputs", to={"file": {"uri": "file:a.npz"}}),
        (
            "spec.load.inputs.file.uri: pods cannot reach file: on your machine; "
            "available in a cluster: configmap://, pvc://, https://, s3://"
        ),
    ),
    (
        _set("load", "headersFile", to="h"),
        "spec.load.headersFile: pods cannot read files on your machine; name a Secret in",
    ),
    (
        an_external_run(server=_SECURE, load={"tls": {"caFile": "c"}}),
        "spec.load.tls.caFile: pods cannot read files on your machine; use caSecret (key ca.crt).",
    ),
    (
        _set("model", "uri", to="s3://b/m.onnx"),
        "spec.model.credentialsSecret: s3:// needs the keys of its store",
    ),
    (
        _set("load", "inputs", to={"file": {"uri": "s3://b/i.npz"}}),
        "spec.load.inputs.file.uri: s3:// is read with the keys of the model's store",
    ),
    *(
        (_set("model", "uri", to=uri), f"spec.model.uri: The address {uri} {fault}")
        for uri, fault in {
            "pvc://C/m.onnx": "has no name of a claim in 'C'",
            "pvc://c": "names no file",
            "pvc://c/": "names no file",
            "pvc://c/a//b": "names no file",
            "pvc://c/../b": "has a part '.' or '..'",
            "pvc://c/%2e%2e/b": "has a part '.' or '..'",
            "pvc://c/a%2f../b": "has a part '.' or '..'",
            "pvc://c/a%00b": "names no file",
            f"pvc://{'c' * 254}/m": "has no name of a claim",
        }.items()
    ),
    *(
        (
            _set("load", "inputs", to={"file": {"uri": uri}}),
            f"spec.load.inputs.file.uri: The address {uri} {fault}",
        )
        for uri, fault in {
            "configmap://a_b/c": "has no name of a ConfigMap in 'a_b'",
            "configmap://a/b/c": "has no key of a ConfigMap in 'b/c'",
        }.items()
    ),
    *(
        (
            _set("server", to={"device": "GPU", "gpu": {"resource": resource}}),
            f"spec.server.gpu.resource: {resource} is not the resource of a device plugin",
        )
        for resource in ("cpu", "memory", "hugepages-2Mi", "kubernetes.io/a", "a.kubernetes.io/b")
    ),
)


_LOCALLY = AVAILABLE | AVAILABLE_LOCALLY


@pytest.mark.parametrize("run", _LOCALLY.values(), ids=_LOCALLY)
def test_what_a_local_run_can_do_is_not_refused(run: Run) -> None:
    """Nothing is said of a run that can be tried."""
    assert refusals(run) == ()


@pytest.mark.parametrize("run", AVAILABLE_IN_A_CLUSTER.values(), ids=AVAILABLE_IN_A_CLUSTER)
def test_what_a_cluster_can_do_is_not_refused(run: Run) -> None:
    """Nothing is said of a run that a cluster can try."""
    assert refusals(run, "Cluster") == ()


@pytest.mark.parametrize(
    ("run", "expected", "place"),
    [
        *((*row, place) for row in UNAVAILABLE for place in get_args(Place)),
        *((*row, "Local") for row in UNAVAILABLE_LOCALLY),
        *((*row, "Cluster") for row in UNAVAILABLE_IN_A_CLUSTER),
    ],
)
def test_each_refusal_is_one_sentence_with_its_path(run: Run, expected: str, place: Place) -> None:
    """One unsupported setting makes one sentence that begins with its path."""
    sentences = refusals(run, place)
    assert len(sentences) == 1
    assert sentences[0].startswith(expected)
    assert sentences[0].endswith(".")


def test_all_refusals_come_at_once() -> None:
    """A run with several unsupported settings gets a sentence for each."""
    run = _set("server", to={"runtime": "KServe", "replicas": 2})
    run = with_value(run, ("spec", "model", "uri"), "pvc://a/b")
    assert len(refusals(run)) == 4


def test_every_choice_of_the_api_is_decided() -> None:
    """Each value of each enum of the spec is either available or refused by its path."""
    refused = (*UNAVAILABLE, *UNAVAILABLE_LOCALLY)
    decided = {sentence.partition(":")[0] for run, _ in refused for sentence in refusals(run)}
    free = {
        "spec.model.pipeline",
        "spec.model.inputs[].datatype",
        "spec.model.outputs[].datatype",
        "spec.server.device",
        "spec.server.precision",
        "spec.server.onnxRuntime.provider",
        "spec.server.onnxRuntime.graphOptimization",
        "spec.server.onnxRuntime.executionMode",
        "spec.scenarios[].profile.levels[]",
        "spec.scenarios[].accuracy.metrics[]",
        "spec.scenarios[].accuracy.onSampleError",
        "spec.server.placement.tolerations[].operator",
        "spec.server.placement.tolerations[].effect",
        "spec.load.protocol",
        "spec.load.pacing",
        "spec.load.tensors",
        "spec.load.compression",
        "spec.validity.rules",
        "spec.validity.warmUp",
        "spec.validity.repeatScope",
        "spec.scenarios[].mixWeights",
        "spec.scenarios[].sampledAccuracy.metrics[]",
        "spec.scenarios[].server.arrivals",
        "spec.scenarios[].server.percentile",
        "spec.scenarios[].findPeak.percentile",
        "spec.scenarios[].coldStart.state",
        "spec.telemetry.power",
        "spec.retention.cleanup",
    }
    enums = {
        path
        for path, schema in fields(run_schema()["properties"]["spec"], "spec")
        if "enum" in schema
    }
    assert enums - free <= decided


def test_the_reference_lists_only_what_is_refused() -> None:
    """Each example of the reference is refused somewhere, and each of its sentences is said."""
    sentences: set[str] = set()
    for path_value in REFUSED:
        found = [unavailable(run_with(path_value), place=place) for place in get_args(Place)]
        assert any(found), path_value
        sentences |= {each.replace(": ", "`: ", 1) for group in found for each in group}
    lines = [re.sub(r" \(runtime \w+\)", "", line) for line in _reference_lines()]
    assert {line.removeprefix("* `") for line in lines} == sentences


def test_the_reference_names_the_runtime_of_a_limit() -> None:
    """A GPU is refused for MLServer: others serve on it."""
    known = {
        line.split("`")[1]: line.split("`")[2].partition(":")[0]
        for line in _reference_lines()
        if "is not available in this version; available: " in line
    }
    assert known.pop("spec.server.runtime", "") == ""
    assert known["spec.server.device"] == " (runtime MLServer)"
    assert all(each.startswith(" (runtime ") for each in known.values())


def test_the_reference_lists_everything_that_is_refused() -> None:
    """No path is refused that the reference does not name."""
    refused_fields = {line.split("`")[1] for line in _reference_lines()}
    runs = (
        *((run, place) for run, _ in UNAVAILABLE for place in get_args(Place)),
        *((run, "Local") for run, _ in UNAVAILABLE_LOCALLY),
        *((run, "Cluster") for run, _ in UNAVAILABLE_IN_A_CLUSTER),
    )
    refused = {
        sentence.partition(":")[0] for run, place in runs for sentence in refusals(run, place)
    }
    assert refused <= refused_fields


def _reference_lines() -> list[str]:
    page = benchmarkrun_page(custom_resource_definition())
    section = page.partition("## Not available in this version\n")[2].partition("\n## ")[0]
    return [line for line in section.splitlines() if line.startswith("* ")]
