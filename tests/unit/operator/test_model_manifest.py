"""A manifest in a ConfigMap is resolved before anything starts: engine, device and nodes."""

import asyncio
import base64
from collections.abc import Mapping
from typing import Any

import pytest
from typing_extensions import override

from inferometer_api.plan.load_plan import LoadPlan
from inferometer_api.spec.run import BenchmarkRun
from inferometer_operator.cluster.connection import ApiConnection
from inferometer_operator.cluster.errors import NodesForbiddenError
from inferometer_operator.cluster.reader import Reader
from inferometer_operator.reconcile.observed import KnownManifest, ObjectReference
from inferometer_operator.settings import Settings
from inferometer_operator.wiring.manifest_reads import ManifestMemory, read_known_manifest
from support.condition_rows import a_cluster
from support.pretend_cluster import SETTINGS, PretendCluster
from support.runs import a_run

_URI = "configmap://digits/model.yaml"
_LABEL = {"inferometer.dev/allow-use": "true"}
_REFERENCE = ObjectReference("ConfigMap", "digits", "spec.model.manifest.uri")
_ENGINES = {
    "serving": {"onnxruntime": "1.31.1", "openvino": "2026.4.1"},
    "mlserver": {"onnxruntime": "1.22.1"},
    "triton": {"onnxruntime": "1.19.2", "openvino": "2024.4.0"},
}
_TEXT = """\
apiVersion: inferometer.dev/v1alpha1
kind: ModelManifest
name: digits
version: 1.0.0
license: MIT
framework: {{name: onnxruntime, version: "{version}"}}
inputs: [{{name: input}}]
outputs: [{{name: output}}]
systemRequirements: {needs}
"""


def a_manifest(needs: str = "{}", version: str = ">=1.20 <2") -> str:
    """Return the text of a manifest with these constraints."""
    return _TEXT.format(needs=needs, version=version)


def a_node(
    name: str, *, cpus: int = 4, gibibytes: int = 8, arch: str = "amd64", **labels: str
) -> Any:
    """Return a node of the API server."""
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": f"{name}.local", **labels}},
        "status": {
            "capacity": {"cpu": str(cpus), "memory": f"{gibibytes}Gi"},
            "allocatable": {},
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"architecture": arch},
        },
    }


class _Connection(ApiConnection):
    """Has one ConfigMap and some nodes, and keeps what was read."""

    def __init__(self, config_map: Any, nodes: Any = ()) -> None:
        self.paths: list[str] = []
        self._config_map, self._nodes = config_map, nodes

    @override
    async def request(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, **_: Any
    ) -> Any:
        assert method == "GET"
        self.paths.append(path)
        if path == "/api/v1/nodes" and self._nodes is None:
            raise NodesForbiddenError(403, "Forbidden", "no")
        return {"items": self._nodes} if path == "/api/v1/nodes" else self._config_map


def a_map(text: str, labels: Mapping[str, str] = _LABEL, member: str = "data") -> Any:
    """Return the ConfigMap that the run names."""
    value = base64.b64encode(text.encode()).decode() if member == "binaryData" else text
    return {"metadata": {"labels": labels}, member: {"model.yaml": value}}


def a_raw_run(**manifest: Any) -> Any:
    """Return a raw run with a manifest in a ConfigMap."""
    run = a_run()
    run["spec"]["model"]["manifest"] = {"uri": _URI, **manifest}
    run["metadata"] |= {"namespace": "ns", "uid": "u", "generation": 1}
    return run


def read(connection: _Connection, run: Any = None, *, nodes: bool = True) -> KnownManifest | None:
    """Return what is known of the run's manifest."""
    settings = SETTINGS.model_copy(update={"read_nodes": nodes})
    reader, memory = Reader(connection), ManifestMemory()
    for _ in range(3):
        found = asyncio.run(read_known_manifest(reader, settings, run or a_raw_run(), memory))
    return found


def played(text: str, *nodes: Any, settings: Settings = SETTINGS, **server: Any) -> PretendCluster:
    """Return a cluster in which the run with this manifest has gone as far as it goes."""
    raw = a_raw_run()
    raw["spec"]["server"] = {**(raw["spec"].get("server") or {}), **server}
    known = read(_Connection(a_map(text), nodes), raw)
    spec = {"model": {"uri": "zoo://classification/resnet50", "manifest": {"uri": _URI}}}
    cluster = a_cluster(
        {**spec, "server": server}, references={_REFERENCE: {"labels": _LABEL}}, settings=settings
    )
    cluster.model_manifest = known
    return cluster.settle()


def refusal(cluster: PretendCluster) -> str:
    """Return why the run was refused, before anything was created."""
    assert cluster.says("Accepted") == ("False", "TaskRefused")
    assert cluster.says("Finished") == ("True", "Failed")
    assert cluster.children == {}
    return cluster.message("Accepted")


def affinity(cluster: PretendCluster) -> Any:
    """Return the expressions that the nodes of the run's server must satisfy."""
    assert cluster.says("Accepted") == ("True", "Accepted")
    pod = cluster.children[cluster.server]["spec"]["template"]["spec"]
    required = (
        pod["affinity"]
        .get("nodeAffinity", {})
        .get("requiredDuringSchedulingIgnoredDuringExecution")
    )
    if required is None:
        return []
    (term,) = required["nodeSelectorTerms"]
    return term["matchExpressions"]


def _with_engines() -> Settings:
    images = SETTINGS.images.model_copy(update={"engines": _ENGINES})
    return SETTINGS.model_copy(update={"images": images})


@pytest.mark.parametrize(
    ("version", "server", "words"),
    [
        (">=1.40 <2", {}, "the nearest is onnxruntime 1.31.1"),
        (">=1.20 <2", {"runtime": "OpenVino"}, "onnxruntime 1.31.1 would do, so change"),
        (">=1.23 <2", {"runtime": "MLServer"}, "the nearest is onnxruntime 1.22.1"),
        (">=1.20 <2", {"runtime": "Triton"}, "the nearest is onnxruntime 1.19.2"),
        (
            ">=1.19 <2",
            {"runtime": "Triton", "tritonBackend": "OpenVino"},
            "onnxruntime 1.19.2 would do, so change",
        ),
    ],
)
def test_an_engine_that_the_images_lack_is_refused(version: str, server: Any, words: str) -> None:
    """With what comes nearest, before a server starts."""
    message = refusal(played(a_manifest(version=version), settings=_with_engines(), **server))
    assert words in message
    assert message.startswith("spec.model.manifest: ")


@pytest.mark.parametrize(
    ("backend", "stated", "version"),
    [
        ("OnnxRuntime", {"triton": {"onnxruntime": "1.19.2"}}, "1.19.2"),
        ("Python", {"triton": {"onnxruntime": "1.19.2"}}, ""),
        ("Python", {"tritonPython": {"onnxruntime": "1.22.1"}}, "1.22.1"),
        ("OpenVino", {"triton": {"onnxruntime": "1.19.2"}}, ""),
    ],
)
def test_what_is_stated_of_one_back_end_says_nothing_of_another(
    backend: Any, stated: Any, version: str
) -> None:
    """An engine of which nothing is stated is not known, and none that the image lacks."""
    images = SETTINGS.images.model_copy(update={"engines": stated})
    settings = SETTINGS.model_copy(update={"images": images})
    raw = a_run(server={"runtime": "Triton", "tritonBackend": backend})
    run = BenchmarkRun.model_validate(raw, by_alias=True, by_name=False)
    engine, versions = settings.engine_of(run.spec)
    assert versions[engine] == version


def test_an_engine_in_an_image_of_unknown_content_is_compared_later() -> None:
    """The load generator compares it with what the server reports."""
    assert affinity(played(a_manifest(version=">=1.40 <2"))) == []
    assert affinity(played(a_manifest(), settings=_with_engines())) == []


@pytest.mark.parametrize(
    ("uri", "compared"),
    [
        ("pvc://models/model.yaml", True),
        ("https://models.example.com/model.yaml", True),
        (_URI, False),
    ],
)
def test_a_manifest_that_the_operator_does_not_read_is_compared_in_the_server_pod(
    uri: str,
    compared: bool,  # noqa: FBT001 - one of the cases
) -> None:
    """Its fetcher gets the engines of the image, and ends before the server starts."""
    source = {"uri": uri} | ({"sha256": "0" * 64} if uri.startswith("https") else {})
    model: Any = {"uri": "zoo://classification/resnet50", "manifest": source}
    claim = ObjectReference("PersistentVolumeClaim", "models", "spec.model.manifest.uri")
    labelled = {each: {"labels": _LABEL} for each in (_REFERENCE, claim)}
    cluster = a_cluster({"model": model}, references=labelled, settings=_with_engines())
    cluster.settle()
    assert cluster.says("Accepted") == ("True", "Accepted"), cluster.message("Accepted")
    server = cluster.children[cluster.server]["spec"]["template"]["spec"]
    (fetch,) = server["initContainers"]
    options = (
        f"--data=manifest.yaml={uri}",
        "--check-manifest=manifest.yaml",
        "--device=CPU",
        "--engine=onnxruntime",
        "--engine-version=onnxruntime=1.31.1",
        "--engine-version=openvino=2026.4.1",
    )
    assert [each in fetch["command"] for each in options] == [compared] * len(options)
    mounted = {each["mountPath"] for each in fetch["volumeMounts"]}
    assert ("/sources/claims/models" in mounted) is uri.startswith("pvc:")


@pytest.mark.parametrize(("engines", "version"), [(_ENGINES, "1.19.2"), ({}, "")])
def test_the_load_generator_knows_the_version_of_an_engine_that_its_image_has(
    engines: Any, version: str
) -> None:
    """For servers that do not report it, such as Triton."""
    images = SETTINGS.images.model_copy(update={"engines": engines})
    settings = SETTINGS.model_copy(update={"images": images})
    cluster = a_cluster({"server": {"runtime": "Triton"}}, settings=settings).settle().schedule()
    held = cluster.children["ConfigMap/a-run-load"]["data"]["plan.json"]
    assert LoadPlan.model_validate_json(held).engine_version == version


def test_a_device_that_the_run_does_not_select_is_refused() -> None:
    """With both devices."""
    message = refusal(played(a_manifest("{device: GPU}")))
    assert "needs GPU, and the run selects CPU" in message


def test_a_server_starts_only_on_nodes_that_satisfy_its_manifest() -> None:
    """Those of its architecture, and of those that were read the ones that are large enough."""
    nodes = (a_node("a"), a_node("b", cpus=16), a_node("c", cpus=16, arch="arm64"))
    hostname, arch = "kubernetes.io/hostname", "kubernetes.io/arch"
    assert affinity(played(a_manifest("{cpus: 8, architectures: [x86_64]}"), *nodes)) == [
        {"key": arch, "operator": "In", "values": ["amd64"]},
        {"key": hostname, "operator": "NotIn", "values": ["a.local", "c.local"]},
    ]
    assert affinity(played(a_manifest("{memory: 8Gi}"), *nodes)) == []
    assert affinity(played(a_manifest("{architectures: [arm64, x86_64]}"), *nodes)) == [
        {"key": arch, "operator": "In", "values": ["amd64", "arm64"]}
    ]


def test_requirements_that_no_node_satisfies_name_the_nearest() -> None:
    """Among the nodes on which the run may start."""
    nodes = (a_node("a", pool="x"), a_node("b", cpus=16), a_node("c", cpus=20, gibibytes=1))
    message = refusal(played(a_manifest("{cpus: 32, memory: 4Gi}"), *nodes))
    assert "Nearest is b: it needs 32 CPUs, and this has 16." in message
    placed: Any = {"placement": {"nodeSelector": {"pool": "x"}}}
    message = refusal(played(a_manifest("{cpus: 32}"), *nodes, **placed))
    assert "Nearest is a: it needs 32 CPUs, and this has 4." in message
    # A node where its pods cannot start, whatever they need, does not count.
    tainted = a_node("d", cpus=64)
    tainted["spec"] = {"taints": [{"key": "role", "effect": "NoSchedule"}]}
    assert "Nearest is c" in refusal(played(a_manifest("{cpus: 32}"), *nodes, tainted))
    # A pool that has no node yet is the scheduler's business.
    empty: Any = {"placement": {"nodeSelector": {"pool": "y"}}}
    assert affinity(played(a_manifest("{cpus: 32}"), *nodes, **empty)) == []


@pytest.mark.parametrize(
    ("config_map", "manifest", "words"),
    [
        (a_map("a: b"), {}, "configmap://digits/model.yaml is not a valid ModelManifest"),
        (a_map(a_manifest(version="newest")), {}, "newest"),
        (a_map(a_manifest(), member="other"), {}, "has no key model.yaml"),
        (a_map(a_manifest()), {"sha256": "0" * 64}, "not " + "0" * 64),
    ],
)
def test_a_broken_manifest_is_refused(config_map: Any, manifest: Any, words: str) -> None:
    """With what is wrong in it."""
    known = read(_Connection(config_map), a_raw_run(**manifest))
    assert known is not None
    assert words in known.problem
    cluster = a_cluster(
        {"model": {"uri": "zoo://classification/resnet50", "manifest": {"uri": _URI}}},
        references={_REFERENCE: {"labels": _LABEL}},
    )
    cluster.model_manifest = known
    assert words in refusal(cluster.settle())


def test_a_manifest_is_read_once_and_only_with_its_label() -> None:
    """Nodes only if it requires something of them; binary data are read as well."""
    connection = _Connection(a_map(a_manifest(), member="binaryData"))
    known = read(connection)
    assert known is not None
    assert known.manifest is not None
    assert connection.paths == ["/api/v1/namespaces/ns/configmaps/digits"] * 2  # its label first
    unlabelled = _Connection(a_map(a_manifest(), labels={}))
    assert read(unlabelled) is None
    assert len(unlabelled.paths) == 3  # each time: the label may come
    large = a_manifest() + "#" * (64 << 10)
    assert read(_Connection(a_map(large))) is None
    needy = _Connection(a_map(a_manifest("{cpus: 8}")), [a_node("a"), a_node("b", cpus=8)])
    known = read(needy)
    assert known is not None
    assert known.unfit_hostnames == ("a.local",)
    assert needy.paths.count("/api/v1/nodes") == 1


@pytest.mark.parametrize("right", ["none", "refused"])
def test_without_the_right_to_read_nodes_the_architecture_alone_counts(right: str) -> None:
    """The run is not refused for what the operator cannot see."""
    connection = _Connection(a_map(a_manifest("{cpus: 999}")), None)
    known = read(connection, nodes=right == "refused")
    assert known is not None
    assert known.manifest is not None
    assert known.unfit_hostnames == ()
    assert connection.paths.count("/api/v1/nodes") == (right == "refused")


def test_a_run_without_a_manifest_in_a_config_map_reads_nothing() -> None:
    """One elsewhere is compared once the server has started."""
    connection = _Connection(None)
    for manifest in ({}, {"uri": "pvc://claim/model.yaml"}):
        run = a_raw_run(**manifest)
        if not manifest:
            del run["spec"]["model"]["manifest"]
        assert read(connection, run) is None
    assert connection.paths == []
