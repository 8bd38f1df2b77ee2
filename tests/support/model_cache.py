"""A model cache without a kernel: mounts in memory, content from a script."""

import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from inferometer_api.plan.cluster_objects import CACHE_MODEL_FILE
from inferometer_fetch.cache.access import Access
from inferometer_fetch.cache.download import Content, Downloads
from inferometer_fetch.cache.node_cache import NodeCache
from inferometer_fetch.cache.references import NodeMount
from inferometer_fetch.cache.request import ModelRequest
from inferometer_fetch.cache.store import ModelStore
from inferometer_fetch.object_store import ObjectStore, ObjectVersion
from inferometer_models.cache_eviction import EvictionPolicy
from support.waiting import wait_for_event

GIGABYTE = 1 << 30
CONTENT = b"0123456789"
URI, PRIVATE_URI = "https://models/m.onnx", "s3://models/m.onnx"
OTHER_URI = "https://other/token=SECRET/m.onnx"


class MemoryMounter:
    """Mounts in a dict that outlives a plugin, as the kernel's outlive it."""

    def __init__(self) -> None:
        self.table: dict[str, NodeMount] = {}
        self.fault: OSError | None = None

    def bind_read_only(self, source: Path, target: Path) -> None:
        """Note a mount, or raise the fault."""
        if self.fault is not None:
            raise self.fault
        assert source.is_dir()
        self.table[str(target)] = NodeMount(source.parent.name, read_only=True)

    def unmount(self, target: Path) -> None:
        """Remove a mount."""
        del self.table[str(target)]

    def mounts(self) -> dict[str, NodeMount]:
        """Return the mounts."""
        return dict(self.table)


class ScriptedStore:
    """Contents by address, with the number of times that each was opened and from which byte."""

    def __init__(self, contents: Mapping[str, bytes]) -> None:
        self.contents = dict(contents)
        self.opened: list[tuple[str, int]] = []
        self.asked: list[ModelRequest] = []
        self.faults: list[Exception] = []
        """One is raised at each opening, after the first half of the content."""
        self.refusal: Exception | None = None
        self.reports_size = True
        self.external: tuple[str, ...] = ()
        """Where the models have their external data."""
        self.graph_fault: Exception | None = None
        """Raised when a graph is read."""
        self.gates: dict[str, threading.Event] = {}
        """An address with a gate yields nothing before the gate opens."""
        self.check_gates: dict[str, threading.Event] = {}
        """The same for checks of credentials."""

    def open_content(self, _: str, request: ModelRequest, location: str | None) -> Content:
        """Return a function that yields the content of a request."""
        address = request.uri if location is None else f"{request.uri}/{location}"

        def content(first_byte: int, report_size: Callable[[int], None]) -> Iterator[bytes]:
            self.opened.append((address, first_byte))
            if address in self.gates:
                wait_for_event(self.gates[address], f"the gate of {address}")
            whole = self.contents[address]
            if self.reports_size:
                report_size(len(whole))
            half = max(first_byte, len(whole) // 2)
            yield whole[first_byte:half]
            if self.faults:
                raise self.faults.pop(0)
            yield whole[half:]

        return content

    def find_external(self, _: Path) -> tuple[str, ...]:
        """Return where a model has its external data, or raise the fault."""
        if self.graph_fault is not None:
            raise self.graph_fault
        return self.external

    def find_version(self, request: ModelRequest, location: str | None) -> ObjectVersion:
        """Return the version of a file; note a check of credentials, or refuse as is planned."""
        if location is None:
            self.asked.append(request)
            if request.uri in self.check_gates:
                wait_for_event(self.check_gates[request.uri], f"the gate of {request.uri}")
            if self.refusal is not None:
                raise self.refusal
        address = request.uri if location is None else f"{request.uri}/{location}"
        content = self.contents.get(address, b"")
        return ObjectVersion(len(content), hashlib.sha256(content).hexdigest())


def node_cache(
    folder: Path,
    content: ScriptedStore,
    mounter: MemoryMounter,
    *,
    quota_bytes: int = GIGABYTE,
    max_model_bytes: int = GIGABYTE,
    policy: EvictionPolicy = "LRU",
    clock: list[float] | None = None,
    disk_bytes: int = GIGABYTE,
) -> tuple[NodeCache, ModelStore]:
    """Start the cache of a node as the plugin does, on whatever its folder holds."""
    now = clock if clock is not None else [1000.0]

    def free_bytes(root: Path) -> int:
        models = (each for each in root.glob("*/*/files/*") if each.name == CACHE_MODEL_FILE)
        return disk_bytes - sum(each.stat().st_size for each in models)

    store = ModelStore(
        folder,
        quota_bytes=quota_bytes,
        policy=policy,
        clock=lambda: now[0],
        free_bytes=free_bytes,
    )
    downloads = Downloads(
        store,
        max_model_bytes=max_model_bytes,
        open_content=content.open_content,
        find_external=content.find_external,
        find_version=content.find_version,
        timer=lambda: now[0],
    )
    cache = NodeCache(store, downloads, Access(lambda: now[0], content.find_version), mounter)
    cache.restore()
    return cache, store


def public(content: bytes, uri: str = URI, namespace: str = "a") -> ModelRequest:
    """Return a request for a public model."""
    return ModelRequest(uri, hashlib.sha256(content).hexdigest(), namespace)


def private(
    content: bytes, namespace: str = "a", keys: str = "s", uri: str = PRIVATE_URI
) -> ModelRequest:
    """Return a request for a private model."""
    store = ObjectStore("id", keys, endpoint="https://store")
    return ModelRequest(uri, hashlib.sha256(content).hexdigest(), namespace, store)
