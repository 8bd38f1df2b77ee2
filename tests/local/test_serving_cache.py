"""The CSI node plugin of the model cache, over its real socket."""

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]  # ships no types
import pytest

from inferometer_api.plan.cluster_objects import CACHE_MODEL_FILE
from inferometer_fetch.cache import download
from inferometer_fetch.cache.csi_messages import (
    CSI_SERVICES,
    REGISTRATION_SERVICE,
    Methods,
    message_class,
)
from inferometer_fetch.cache.csi_server import (
    CsiService,
    RegistrationService,
    start_registration,
    start_server,
)
from inferometer_fetch.cache.download import external_locations
from inferometer_fetch.cache.errors import UnreadableGraphError
from inferometer_models.errors import ModelRefusedError
from support import onnx_models
from support.model_cache import MemoryMounter, ScriptedStore, node_cache
from support.requirements import cannot_run

CONTENT = onnx_models.identity().SerializeToString()
URI = "https://models/m.onnx"
Call = Callable[..., Any]


@pytest.fixture
def mounter() -> MemoryMounter:
    """Return a node without mounts."""
    return MemoryMounter()


@pytest.fixture
def call(tmp_path: Path, mounter: MemoryMounter) -> Iterator[Call]:
    """Run the plugin on a socket, and return a function that calls one of its methods."""
    cache, _ = node_cache(tmp_path / "cache", ScriptedStore({URI: CONTENT}), mounter)
    service = CsiService(
        cache, driver="d", version="1", node="n", kubelet_folder=tmp_path / "kubelet"
    )
    socket = tmp_path / "csi.sock"
    server = start_server(service, socket)
    yield from _caller(socket, CSI_SERVICES)
    server.stop(None).wait()


@pytest.fixture
def call_registration(tmp_path: Path) -> Iterator[Call]:
    """Run the registration on a socket, and return a function that calls one of its methods."""
    service = RegistrationService(driver="d", endpoint=Path("/kubelet/csi.sock"))
    server = start_registration(service, tmp_path / "reg.sock")
    yield from _caller(tmp_path / "reg.sock", REGISTRATION_SERVICE)
    server.stop(None).wait()


def _caller(socket: Path, services: dict[str, Methods]) -> Iterator[Call]:
    paths = {
        method: (f"/{name}/{method}", *forms)
        for name, methods in services.items()
        for method, forms in methods.items()
    }
    with grpc.insecure_channel(f"unix://{socket}") as channel:

        def answer(method: str, **fields: Any) -> Any:
            path, request, response = paths[method]
            return channel.unary_unary(
                path,
                request_serializer=message_class(request).SerializeToString,
                response_deserializer=message_class(response).FromString,
            )(message_class(request)(**fields), timeout=60)

        yield answer


def _volume(target: Path, **attributes: str) -> dict[str, Any]:
    known = {
        "csi.storage.k8s.io/pod.namespace": "a",
        "csi.storage.k8s.io/ephemeral": "true",
        "uri": URI,
        "sha256": hashlib.sha256(CONTENT).hexdigest(),
    }
    return {
        "volume_id": "v",
        "target_path": str(target),
        "volume_context": {**known, **attributes},
        "volume_capability": message_class("VolumeCapability")(mount={}),
        "readonly": True,
    }


def test_the_kubelet_finds_the_plugin(call: Call, call_registration: Call) -> None:
    """The registration leads to the plugin, whose name and node are those that were set."""
    found = call_registration("GetInfo")
    assert (found.type, found.name, found.endpoint) == ("CSIPlugin", "d", "/kubelet/csi.sock")
    assert found.supported_versions == ["1.0.0"]
    call_registration("NotifyRegistrationStatus", plugin_registered=False, error="no")
    info = call("GetPluginInfo")
    assert (info.name, info.vendor_version) == ("d", "1")
    assert call("Probe").ready.value
    assert call("NodeGetInfo").node_id == "n"
    call("GetPluginCapabilities")
    call("NodeGetCapabilities")


def test_a_volume_is_mounted_and_unmounted(
    call: Call, mounter: MemoryMounter, tmp_path: Path
) -> None:
    """The kubelet's calls mount a model, and end its mount."""
    target = tmp_path / "kubelet" / "pods" / "mount"
    call("NodePublishVolume", **_volume(target))
    assert mounter.table[str(target)].read_only
    key = mounter.table[str(target)].key
    assert key is not None
    file = tmp_path / "cache" / "entries" / key / "files" / CACHE_MODEL_FILE
    assert file.read_bytes() == CONTENT
    call("NodeUnpublishVolume", volume_id="v", target_path=str(target))
    assert mounter.table == {}


@pytest.mark.parametrize(
    ("changed", "code", "words"),
    [
        ({"sha256": "0" * 64}, "INVALID_ARGUMENT", "has another"),
        ({"uri": "ftp://x"}, "INVALID_ARGUMENT", "use https:// or s3://"),
        ({"csi.storage.k8s.io/ephemeral": "false"}, "INVALID_ARGUMENT", "inline volumes"),
    ],
)
def test_a_refusal_is_a_sentence_for_the_event(
    call: Call, tmp_path: Path, changed: dict[str, str], code: str, words: str
) -> None:
    """The kubelet writes the message into the pod's events."""
    with pytest.raises(grpc.RpcError) as raised:
        call("NodePublishVolume", **_volume(tmp_path / "kubelet" / "t", **changed))
    assert raised.value.code().name == code
    assert words in raised.value.details()


def test_a_target_outside_the_kubelets_folder_is_refused(call: Call, tmp_path: Path) -> None:
    """No caller mounts over another path of the node."""
    for target in (tmp_path / "etc", tmp_path / "kubelet" / ".." / "etc", tmp_path / "kubelet"):
        with pytest.raises(grpc.RpcError, match="not below the kubelet's folder"):
            call("NodePublishVolume", **_volume(target))


def test_another_process_reads_an_untrusted_graph(tmp_path: Path) -> None:
    """The locations of external data are found, and what is no model is refused."""
    onnx_models.write_with_external_data(tmp_path, "w/data.bin")
    (model,) = tmp_path.glob("*.onnx")
    assert external_locations(model) == ("w/data.bin",)
    model.write_bytes(b"no model")
    with pytest.raises(ModelRefusedError, match="not an ONNX model"):
        external_locations(model)


def test_the_memory_for_a_graph_does_not_grow_with_its_weights(tmp_path: Path) -> None:
    """Of a file that is larger than the memory of its reader, the locations are found."""
    model = onnx_models.write_with_external_data(tmp_path, "w/data.bin")
    weights_bytes = 2 << 30
    field = b"\x4a" + _varint(weights_bytes)  # TensorProto.raw_data
    for tag in (b"\x2a", b"\x3a"):  # GraphProto.initializer, ModelProto.graph
        field = tag + _varint(len(field) + weights_bytes) + field
    with model.open("ab") as file:
        file.write(field)
        file.truncate(file.tell() + weights_bytes)
    assert external_locations(model) == ("w/data.bin",)


def _varint(value: int) -> bytes:
    low, rest = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + _varint(rest) if rest else bytes([low])


@pytest.mark.parametrize("end", [0, -1])
def test_what_is_no_whole_model_is_refused(tmp_path: Path, end: int) -> None:
    """The reason is that of the parser, for an empty file and one that was cut."""
    (tmp_path / "m.onnx").write_bytes(CONTENT[:end])
    with pytest.raises(ModelRefusedError, match=r"of the volume is not an ONNX model: it is"):
        external_locations(tmp_path / "m.onnx")


def test_a_graph_that_is_too_large_is_refused_with_the_right_reason(tmp_path: Path) -> None:
    """What counts is its size without its weights; it is not said to be another format."""
    model = onnx_models.identity()
    for _ in range(600):
        model.graph.node.add(op_type="Identity", name="n" * 60_000)
    onnx_models.save(model, tmp_path / "m.onnx")
    with pytest.raises(UnreadableGraphError, match="over 32 MiB without its weights"):
        external_locations(tmp_path / "m.onnx")


def test_a_reader_of_graphs_that_is_killed_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel ends it where the container has no memory: the message says what to raise."""
    (tmp_path / "m.onnx").write_bytes(CONTENT)
    killed = subprocess.CompletedProcess[bytes]([], -9, b"", b"")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: killed)
    with pytest.raises(UnreadableGraphError, match=r"signal 9: raise modelCache\.resources"):
        external_locations(tmp_path / "m.onnx")


def test_a_graph_that_takes_too_long_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message is a sentence for the event, without the command of the process."""
    (tmp_path / "m.onnx").write_bytes(CONTENT)
    monkeypatch.setattr(download, "_PARSE_SECONDS", 0.001)
    with pytest.raises(UnreadableGraphError, match=r"^The graph of the model could not be read"):
        external_locations(tmp_path / "m.onnx")


def test_the_process_that_reads_a_graph_has_no_rights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the user of the option, no group of the cache's, and the model as standard input."""
    (tmp_path / "m.onnx").write_bytes(b"the model")
    started: list[dict[str, Any]] = []

    def run(words: list[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
        started.append({**options, "stdin": options["stdin"].read()})
        return subprocess.CompletedProcess(words, 0, b"[]", b"")

    monkeypatch.setattr(subprocess, "run", run)
    assert external_locations(tmp_path / "m.onnx", user=65534) == ()
    (options,) = started
    rights = {"user": 65534, "group": 65534, "extra_groups": (), "stdin": b"the model"}
    assert {name: options[name] for name in rights} == rights


_MOUNTS = """
import json, sys
from pathlib import Path
from inferometer_fetch.cache.mounter import LinuxMounter
source, target, root = map(Path, sys.argv[1:])
mounter = LinuxMounter(root)
mounter.bind_read_only(source, target)
found = mounter.mounts()[str(target)]
try:
    (target / "new").touch()
    written = "yes"
except OSError as error:
    written = error.strerror
content = (target / "model.onnx").read_text()
mounter.unmount(target)
mounter.unmount(target)
left = sorted({str(target), str(root / "staging")} & {*mounter.mounts()})
print(json.dumps([found.key, found.read_only, written, content, left]))
"""


def test_the_kernels_mounts_are_read_only(tmp_path: Path) -> None:
    """In a mount namespace of its own: a bind mount is listed, cannot be written, and ends."""
    key = "0f" * 32
    source, target = tmp_path / "entries" / key / "files", tmp_path / "a target"
    source.mkdir(parents=True)
    target.mkdir()
    (source / CACHE_MODEL_FILE).write_text("weights")
    words = ["unshare", "--mount", "--propagation", "private", sys.executable, "-c", _MOUNTS]
    ended = _in_namespace(*words, source, target, tmp_path)
    assert json.loads(ended) == [key, True, "Read-only file system", "weights", []]


_NODE = """
set -eu
mount --bind "$1" "$1"
mount --make-shared "$1"
unshare --mount --propagation unchanged "$2" -c "$3" "$4" "$1/target" "$5"
"$2" -c "$6" "$1/target"
"""
"""A node whose folder of pods is shared with the namespace of the plugin."""
_PLUGIN = """
import sys
from pathlib import Path
from inferometer_fetch.cache.mounter import LinuxMounter
source, target, root = map(Path, sys.argv[1:])
LinuxMounter(root).bind_read_only(source, target)
"""
_POD = """
import json, sys
from pathlib import Path
content = (Path(sys.argv[1]) / "model.onnx").read_text()
try:
    (Path(sys.argv[1]) / "model.onnx").write_text("changed")
    written = "yes"
except OSError as error:
    written = error.strerror
print(json.dumps([content, written]))
"""


def test_the_mount_that_reaches_the_node_is_read_only(tmp_path: Path) -> None:
    """Pods get the node's mount, not the plugin's: root in a pod cannot change a cached model."""
    source, pods = tmp_path / "entries" / ("0f" * 32) / "files", tmp_path / "pods"
    source.mkdir(parents=True)
    (pods / "target").mkdir(parents=True)
    (source / CACHE_MODEL_FILE).write_text("weights")
    words = ["unshare", "--mount", "--propagation", "private", "bash", "-c", _NODE, "node"]
    rest = (pods, sys.executable, _PLUGIN, source, tmp_path, _POD)
    assert json.loads(_in_namespace(*words, *rest)) == ["weights", "Read-only file system"]
    assert (source / CACHE_MODEL_FILE).read_text() == "weights"


def _in_namespace(*words: str | Path) -> str:
    """Return what a command prints that needs mounts of its own."""
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    if "Operation not permitted" in ended.stderr and ended.stderr.startswith("unshare"):
        cannot_run("Mounts need the rights of root here.")
    assert ended.returncode == 0, ended.stderr
    return ended.stdout
