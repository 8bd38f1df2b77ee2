"""Refusals of this version for the reference page: the sentences of `unavailable` for examples."""

from typing import Any, get_args

from inferometer_api.plan.availability import unavailable
from inferometer_api.runtimes.descriptor import Place
from inferometer_api.runtimes.table import RUNTIMES
from inferometer_api.spec.run import BenchmarkRun
from inferometer_api.spec.server import Runtime

_HEAD = """\
The API describes more than this version supports. It rejects the rest by name: in a local run with
exit code 2, in a cluster with the condition `Accepted=False` and the reason `NotAvailable`. The
messages, for one example of each:"""
_HEADINGS: dict[tuple[Place, ...], str] = {
    ("Local", "Cluster"): "Everywhere:",
    ("Local",): "In a local run:",
    ("Cluster",): "In a cluster:",
}
Members = dict[str, Any]
"""Members of a spec, in wire names."""


def _external(tls: Members | None = None, **external: Any) -> Members:
    server = {"runtime": "External", "external": external}
    load: Members = {"load": {"tls": tls}} if tls else {}
    return {"model": {"name": "a"}, "server": server, **load}


def _inputs(uri: str) -> Members:
    return {"load": {"inputs": {"file": {"uri": uri, "sha256": "0" * 64}}}}


def _mixed(*models: str, others: tuple[str, ...] = ()) -> Members:
    mix = [{"model": each, "weight": 1} for each in models]
    found: Members = {"scenarios": [{"name": "a", "mix": mix, "singleStream": {}}]}
    return found | ({"otherModels": [{"uri": each} for each in others]} if others else {})


_CLIENT_FILES = {"clientCertificateFile": "c.crt", "clientKeyFile": "c.key"}

REFUSED: tuple[Members, ...] = (
    *({"server": {"runtime": runtime}} for runtime in get_args(Runtime) if runtime not in RUNTIMES),
    {"server": {"device": "GPU", "gpu": {"count": 2}}},
    {"server": {"runtime": "Custom", "custom": {"name": "a"}}},
    {"server": {"runtime": "MLServer", "batching": {"maxBatchSize": 8}, "precision": "BF16"}},
    {"server": {"runtime": "MLServer", "device": "GPU"}},
    {"server": {"runtime": "Triton", "tritonBackend": "Python", "device": "GPU"}},
    {"server": {"device": "GPU", "gpu": {"resource": "cpu"}}},
    {"server": {"replicas": 2}},
    {"server": {"runtime": "KServe", "replicas": 2}},
    _external(service={"name": "a", "port": 80}),
    {"model": {"uri": "file:model.onnx"}},
    {"model": {"uri": "pvc://claim/model.onnx"}},
    {"model": {"uri": "s3://bucket/model.onnx"}},
    *map(_inputs, ("file:a.npz", "https://h/a.npz", "configmap://a/b.npz", "pvc://c/a.npz")),
    _inputs("s3://bucket/a.npz"),
    {"load": {"tls": {"serverName": "h"}}},
    _external({"serverName": "h"}, url="http://h"),
    _external({"caSecret": "a", "clientSecret": "b"}, url="https://h"),
    _external({"caFile": "ca.crt", **_CLIENT_FILES}, url="https://h"),
    {"load": {"headersSecret": "a"}},
    {"load": {"headersFile": "headers"}},
    {
        "load": {"protocol": "GRPC", "connections": 1, "streamsPerConnection": 8},
        "scenarios": [{"name": "a", "concurrency": {"clients": [16]}}],
    },
    _mixed("resnet50", "resnet18"),
    _mixed("resnet50", "m", others=("s3://bucket/m.onnx",)),
    _mixed("resnet50", "a", others=("zoo://a/a", "file:other/a.onnx")),
    _mixed("resnet50", "m", others=("pvc://c/m.onnx",)),
    {"scenarios": [{"name": "a", "coldStart": {"state": "Nothing"}}]},
    {"scenarios": [{"name": "a", "bricks": {"models": ["zoo://a/a"]}}]},
    {"model": {"uri": "https://h/m.onnx", "sha256": "0" * 64, "cache": "Node"}},
    {"suspend": True},
    {"cancel": True},
)
"""One example of each thing that is refused somewhere."""


def refusals_section() -> str:
    """Return the section of the reference, with each sentence below the places that say it."""
    places: dict[str, list[Place]] = {}
    for members in REFUSED:
        run = run_with(members)
        for place in get_args(Place):
            for sentence in unavailable(run, place=place):
                where = places.setdefault(_item(sentence, run.spec.server.runtime), [])
                where += [] if place in where else [place]
    lines = [_HEAD]
    for which, heading in _HEADINGS.items():
        items = [item for item, where in places.items() if tuple(where) == which]
        lines += ["", heading, "", *items]
    return "\n".join(lines)


def run_with(members: Members) -> BenchmarkRun:
    """Return the smallest run with these members of the spec."""
    spec = {
        "model": {"uri": "zoo://classification/resnet50"},
        "scenarios": [{"name": "a", "singleStream": {}}],
        **members,
    }
    return BenchmarkRun.model_validate(
        {
            "apiVersion": "inferometer.dev/v1alpha1",
            "kind": "BenchmarkRun",
            "metadata": {"name": "a"},
            "spec": spec,
        }
    )


def _item(sentence: str, runtime: str) -> str:
    """Return a sentence as an item, with the runtime of its example if another has other values."""
    path, _, words = sentence.partition(": ")
    is_limit = path.startswith("spec.server.") and "; available: " in words
    known = f" (runtime {runtime})" if is_limit and path != "spec.server.runtime" else ""
    return f"* `{path}`{known}: {words}"
