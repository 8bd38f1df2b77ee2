"""Client of a node's container runtime: the calls of the Container Runtime Interface (CRI) in use.

The messages are described field by field and built by the protobuf runtime, so that no generated
code is needed. Source: pkg/apis/runtime/v1/api.proto of k8s.io/cri-api.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]  # ships no types
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_PACKAGE = "runtime.v1"
_CALL_SECONDS = 60.0
"""A removal waits until the runtime has deleted the layers."""
_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {"string": _Field.TYPE_STRING, "uint64": _Field.TYPE_UINT64, "int32": _Field.TYPE_INT32}
_MESSAGES: dict[str, dict[str, tuple[int, str]]] = {
    "ImageSpec": {"image": (1, "string")},
    "Image": {
        "id": (1, "string"),
        "repo_tags": (2, "repeated string"),
        "repo_digests": (3, "repeated string"),
        "size": (4, "uint64"),
    },
    "ListImagesRequest": {},
    "ListImagesResponse": {"images": (1, "repeated Image")},
    "RemoveImageRequest": {"image": (1, "ImageSpec")},
    "RemoveImageResponse": {},
    "Container": {
        "id": (1, "string"),
        "pod_sandbox_id": (2, "string"),
        "image": (4, "ImageSpec"),
        "image_ref": (5, "string"),
        "state": (6, "int32"),
        "image_id": (10, "string"),
    },
    "ListContainersRequest": {},
    "ListContainersResponse": {"containers": (1, "repeated Container")},
    "PodSandboxMetadata": {"name": (1, "string"), "namespace": (3, "string")},
    "PodSandbox": {
        "id": (1, "string"),
        "metadata": (2, "PodSandboxMetadata"),
        "state": (3, "int32"),
    },
    "ListPodSandboxRequest": {},
    "ListPodSandboxResponse": {"items": (1, "repeated PodSandbox")},
}
"""Fields by message: number and type. Enumerations are read as numbers; other fields are not read.
"""
_EXITED = 2
"""ContainerState.CONTAINER_EXITED."""
_READY = 0
"""PodSandboxState.SANDBOX_READY."""


class RuntimeFailedError(Exception):
    """The container runtime did not do what it was to do; the message is a sentence."""


@dataclass(frozen=True, slots=True)
class NodeImage:
    """One image on the node."""

    id: str
    names: frozenset[str]
    """Its tags and digests, as the runtime names them."""


@dataclass(frozen=True, slots=True)
class ImageUse:
    """A pod that uses an image: a container of it is not over, or may be started again."""

    pod: str
    """NAMESPACE/NAME."""
    images: frozenset[str]
    """Names and identifiers by which its container refers to the image."""


def message_type(name: str) -> Any:
    """Return the class of a message: "ListImagesRequest"."""
    return message_factory.GetMessageClass(_pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))


class CriClient:
    """Calls a container runtime by its Unix socket."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    async def images(self) -> list[NodeImage]:
        """Return the images of the node. Raises RuntimeFailedError."""
        answer = await self._call("ImageService", "ListImages")
        return [
            NodeImage(each.id, frozenset((*each.repo_tags, *each.repo_digests)))
            for each in answer.images
        ]

    async def uses(self) -> list[ImageUse]:
        """Return which images the pods of the node use. Raises RuntimeFailedError."""
        sandboxes = {
            each.id: each for each in (await self._call("RuntimeService", "ListPodSandbox")).items
        }
        containers = (await self._call("RuntimeService", "ListContainers")).containers
        found = []
        for each in containers:
            sandbox = sandboxes.get(each.pod_sandbox_id)
            if each.state == _EXITED and (sandbox is None or sandbox.state != _READY):
                continue
            pod = (
                "?" if sandbox is None else f"{sandbox.metadata.namespace}/{sandbox.metadata.name}"
            )
            names = {each.image.image, each.image_ref, each.image_id} - {""}
            found.append(ImageUse(pod, frozenset(names)))
        return found

    async def remove(self, image: str) -> None:
        """Remove an image with all its names. Raises RuntimeFailedError."""
        spec = message_type("ImageSpec")(image=image)
        await self._call("ImageService", "RemoveImage", image=spec)

    async def _call(self, service: str, method: str, **fields: Any) -> Any:
        request = message_type(f"{method}Request")(**fields)
        decode: Callable[[bytes], Any] = message_type(f"{method}Response").FromString
        try:
            async with grpc.aio.insecure_channel(f"unix:{self._socket}") as channel:
                call = channel.unary_unary(
                    f"/{_PACKAGE}.{service}/{method}",
                    request_serializer=type(request).SerializeToString,
                    response_deserializer=decode,
                )
                return await call(request, timeout=_CALL_SECONDS)
        except grpc.aio.AioRpcError as error:
            raise RuntimeFailedError(
                f"The container runtime at {self._socket} refuses {method}: {error.details()}."
            ) from error


def _file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(
        name="runtime_v1.proto", package=_PACKAGE, syntax="proto3"
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            many, _, single = kind.rpartition(" ")
            label = _Field.LABEL_REPEATED if many else _Field.LABEL_OPTIONAL
            made = message.field.add(name=field, number=number, label=label)
            if single in _SCALARS:
                made.type = _SCALARS[single]
            else:
                made.type, made.type_name = _Field.TYPE_MESSAGE, f".{_PACKAGE}.{single}"
    return file


_pool = descriptor_pool.DescriptorPool()
_pool.AddSerializedFile(_file().SerializeToString())
