"""A container runtime that answers the calls of CRI on a Unix socket as a test says."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]  # ships no types

from inferometer_telemetry.images.cri_client import message_type

RUNNING, EXITED = 1, 2
SANDBOX_READY, SANDBOX_OVER = 0, 1


@dataclass(slots=True)
class ScriptedRuntime:
    """Its images and containers, which a test may change at any time."""

    images: dict[str, list[str]] = field(default_factory=dict)
    """Names of each image, by its ID."""
    containers: list[tuple[str, str, int, int]] = field(default_factory=list)
    """Pod, image ID, state of the container and state of its sandbox."""
    keeps: bool = False
    """Whether it removes nothing although it says so."""
    fault: str = ""
    """What it answers to a removal."""
    removals: list[str] = field(default_factory=list)

    def answer(self, method: str, request: Any, context: Any) -> Any:
        """Return the answer to a call."""
        made = message_type(f"{method}Response")()
        match method:
            case "ListImages":
                for key, names in self.images.items():
                    made.images.add(id=key, repo_tags=names, size=1 << 20)
            case "ListPodSandbox":
                for index, (pod, _, _, state) in enumerate(self.containers):
                    each = made.items.add(id=f"sandbox{index}", state=state)
                    each.metadata.namespace, each.metadata.name = pod.split("/")
            case "ListContainers":
                for index, (_, image, state, _) in enumerate(self.containers):
                    made.containers.add(
                        id=f"container{index}",
                        pod_sandbox_id=f"sandbox{index}",
                        image_ref=image,
                        state=state,
                    )
            case _:
                self._remove(request.image.image, context)
        return made

    def _remove(self, image: str, context: Any) -> None:
        if self.fault:
            context.abort(grpc.StatusCode.INTERNAL, self.fault)
        self.removals.append(image)
        if not self.keeps:
            self.images.pop(image, None)


@contextmanager
def runtime_socket(runtime: ScriptedRuntime, socket: Path) -> Iterator[None]:
    """Serve the runtime at a socket."""
    server = grpc.server(ThreadPoolExecutor(max_workers=4))
    services = {
        "ImageService": ("ListImages", "RemoveImage"),
        "RuntimeService": ("ListContainers", "ListPodSandbox"),
    }
    for service, methods in services.items():
        handlers = {method: _handler(runtime, method) for method in methods}
        generic = grpc.method_handlers_generic_handler(f"runtime.v1.{service}", handlers)
        server.add_generic_rpc_handlers((generic,))
    server.add_insecure_port(f"unix:{socket}")
    server.start()
    try:
        yield
    finally:
        server.stop(None).wait()


def _handler(runtime: ScriptedRuntime, method: str) -> Any:
    def answer(request: Any, context: Any) -> Any:
        return runtime.answer(method, request, context)

    return grpc.unary_unary_rpc_method_handler(
        answer,
        request_deserializer=message_type(f"{method}Request").FromString,
        response_serializer=lambda message: message.SerializeToString(),
    )
