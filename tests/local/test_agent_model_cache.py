"""The model cache as a process with the kernel's mounts, killed in the middle of a download."""

import hashlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]  # ships no types
import pytest

from inferometer_fetch.cache.csi_messages import message_class
from support.cached_models import ModelBucket
from support.gated_store import GatedStore
from support.requirements import cannot_run
from support.waiting import wait_until


class Plugin:
    """A plugin in a mount namespace that outlives it, and the store that it fetches from."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.requests: list[dict[str, Any]] = []
        (folder / "store" / "models").mkdir(parents=True)
        (folder / "kubelet" / "pods").mkdir(parents=True)
        self.bucket = ModelBucket(folder / "store", folder / "unused")
        self.store = GatedStore(("127.0.0.1", 0), folder / "store", self.requests.append)
        threading.Thread(target=self.store.serve_forever, daemon=True).start()
        self._starts = 0
        words = ["unshare", "--mount", "--propagation", "private", "sleep", "infinity"]
        self.holder = subprocess.Popen(words)
        own = Path("/proc/self/ns/mnt").readlink()
        place = Path(f"/proc/{self.holder.pid}/ns/mnt")
        wait_until(lambda: place.readlink() != own, "a mount namespace")
        self.process = self.start()

    def start(self) -> "subprocess.Popen[bytes]":
        """Start the plugin on what its folder holds, and wait until it listens."""
        self._starts += 1
        log = self.folder / f"plugin-{self._starts}.log"
        words = [
            *("nsenter", f"--mount=/proc/{self.holder.pid}/ns/mnt", sys.executable),
            *("-m", "inferometer_fetch.cache", "--socket", self.folder / "csi.sock"),
            *("--folder", self.folder / "cache", "--kubelet-folder", self.folder / "kubelet"),
        ]
        with log.open("wb") as errors:
            self.process = subprocess.Popen([str(word) for word in words], stderr=errors)
        wait_until(lambda: b'"listening"' in log.read_bytes(), "the plugin")
        return self.process

    def kill(self) -> None:
        """End the plugin as a lack of memory would."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def publish(self, name: str, sha256: str) -> str:
        """Mount the model as the kubelet does; return "" or the message of the refusal."""
        context = {
            "csi.storage.k8s.io/pod.namespace": "a",
            "csi.storage.k8s.io/ephemeral": "true",
            "uri": "s3://models/m",
            "sha256": sha256,
        }
        endpoint = f"http://127.0.0.1:{self.store.server_port}"
        keys = {"accessKeyId": "tester", "secretAccessKey": "secret", "endpoint": endpoint}
        request = message_class("NodePublishVolumeRequest")(
            volume_id="v",
            target_path=str(self.folder / "kubelet" / "pods" / name),
            volume_capability=message_class("VolumeCapability")(mount={}),
            secrets=keys,
            volume_context=context,
            readonly=True,
        )
        with grpc.insecure_channel(f"unix://{self.folder}/csi.sock") as channel:
            call = channel.unary_unary(
                "/csi.v1.Node/NodePublishVolume",
                request_serializer=type(request).SerializeToString,
                response_deserializer=message_class("NodePublishVolumeResponse").FromString,
            )
            try:
                call(request, timeout=60)
            except grpc.RpcError as error:
                return str(error.details())
        return ""

    def mounts(self) -> list[str]:
        """Return the mounts of models in the namespace."""
        lines = Path(f"/proc/{self.holder.pid}/mountinfo").read_text().splitlines()
        return [line for line in lines if "/entries/" in line]

    def downloads(self) -> list[int]:
        """Return the first byte of each download so far."""
        return [each["firstByte"] for each in self.requests if each["method"] == "GET"]

    def part_bytes(self) -> int:
        """Return the bytes of downloads that are not whole."""
        parts = (self.folder / "cache" / "partial").glob("*/files/*")
        return sum(each.stat().st_size for each in parts)

    def checksum(self, name: str) -> str:
        """Return the checksum of the file that a pod sees."""
        root = f"/proc/{self.holder.pid}/root"
        file = Path(f"{root}{self.folder}/kubelet/pods/{name}/model.onnx")
        return hashlib.sha256(file.read_bytes()).hexdigest()


@pytest.fixture
def plugin(tmp_path: Path) -> Iterator[Plugin]:
    """Start a plugin; end it with its namespace."""
    if os.geteuid() != 0:
        cannot_run("Mounts need the rights of root here.")
    found = Plugin(tmp_path)
    yield found
    found.kill()
    found.holder.kill()
    found.holder.wait()
    found.store.shutdown()
    found.store.server_close()


def test_a_killed_plugin_continues_one_download_for_two_pods(plugin: Plugin) -> None:
    """Nothing is mounted before the file is whole, and mounts outlive the next kill."""
    sha256 = plugin.bucket.add("m")
    plugin.bucket.close_gate()
    with ThreadPoolExecutor() as threads:
        waiting = [threads.submit(plugin.publish, name, sha256) for name in "ab"]
        wait_until(lambda: plugin.part_bytes() > 0, "a part of the model on the disk")
        plugin.kill()
        assert all(each.result() for each in waiting)
        assert plugin.mounts() == []
        plugin.start()
        plugin.bucket.open_gate()
        assert list(threads.map(plugin.publish, "ab", [sha256] * 2)) == ["", ""]
    first, second = plugin.downloads()
    assert first == 0
    assert second > 0
    assert {line.split()[5].split(",")[0] for line in plugin.mounts()} == {"ro"}
    plugin.kill()
    plugin.start()
    assert [plugin.checksum(name) for name in "ab"] == [sha256] * 2
    assert "should have the sha256 000" in plugin.publish("c", "0" * 64)
    assert len(plugin.mounts()) == 2
