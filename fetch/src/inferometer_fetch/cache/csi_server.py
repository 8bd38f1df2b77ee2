"""The CSI node plugin: gRPC on a Unix socket, in front of the node's cache."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]  # ships no types
import structlog

from inferometer_fetch.cache import errors
from inferometer_fetch.cache.csi_messages import (
    CSI_SERVICES,
    REGISTRATION_SERVICE,
    Methods,
    message_class,
)
from inferometer_fetch.cache.node_cache import NodeCache, check_target
from inferometer_fetch.cache.request import model_request
from inferometer_fetch.errors import FetchFailedError
from inferometer_models.errors import ModelRefusedError

_log = structlog.get_logger()

CALLS_AT_ONCE = 64
"""Calls that wait for a download or for a check of credentials hold one; they are fewer."""
_ANSWER_SECONDS = 100.0
"""The kubelet gives a call two minutes, and then tries again."""

_CODES: dict[type[Exception], grpc.StatusCode] = {
    ModelRefusedError: grpc.StatusCode.INVALID_ARGUMENT,
    FetchFailedError: grpc.StatusCode.UNAVAILABLE,
    errors.StillFetchingError: grpc.StatusCode.ABORTED,
    errors.CacheFullError: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.DamagedEntryError: grpc.StatusCode.DATA_LOSS,
    errors.MountedOtherwiseError: grpc.StatusCode.FAILED_PRECONDITION,
    OSError: grpc.StatusCode.INTERNAL,
}


class CsiService:
    """Answers the calls of the kubelet."""

    def __init__(
        self, cache: NodeCache, *, driver: str, version: str, node: str, kubelet_folder: Path
    ) -> None:
        self._cache = cache
        self._driver = driver
        self._version = version
        self._node = node
        self._kubelet_folder = kubelet_folder

    def get_plugin_info(self, _: Any) -> Any:
        """Return name and version."""
        return message_class("GetPluginInfoResponse")(
            name=self._driver, vendor_version=self._version
        )

    def get_plugin_capabilities(self, _: Any) -> Any:
        """Return no capability: there is no controller service."""
        return message_class("GetPluginCapabilitiesResponse")()

    def probe(self, _: Any) -> Any:
        """Return that the plugin is ready."""
        response = message_class("ProbeResponse")()
        response.ready.value = True
        return response

    def node_publish_volume(self, request: Any) -> Any:
        """Mount a model into a pod."""
        if request.volume_capability.HasField("block"):
            raise ModelRefusedError("The model cache has no block volumes: mount a file system.")
        target = check_target(request.target_path, self._kubelet_folder)
        wanted = model_request(request.volume_context, request.secrets)
        began = time.monotonic()
        made = self._cache.publish(wanted, target, timeout_seconds=_ANSWER_SECONDS)
        _log.info(
            "mounted",
            uri=wanted.uri,
            key=made.key,
            namespace=wanted.namespace,
            wasCached=made.was_cached,
            seconds=round(time.monotonic() - began, 3),
        )
        return message_class("NodePublishVolumeResponse")()

    def node_unpublish_volume(self, request: Any) -> Any:
        """Unmount a model."""
        self._cache.unpublish(check_target(request.target_path, self._kubelet_folder))
        return message_class("NodeUnpublishVolumeResponse")()

    def node_get_capabilities(self, _: Any) -> Any:
        """Return no capability: volumes are not staged, and have no statistics."""
        return message_class("NodeGetCapabilitiesResponse")()

    def node_get_info(self, _: Any) -> Any:
        """Return the name of the node."""
        return message_class("NodeGetInfoResponse")(node_id=self._node)


class RegistrationService:
    """Reports to the kubelet that a CSI plugin is there, and where.

    It is what the standard sidecar csi-node-driver-registrar does.
    """

    def __init__(self, *, driver: str, endpoint: Path) -> None:
        self._driver = driver
        self._endpoint = endpoint

    def get_info(self, _: Any) -> Any:
        """Return the plugin's name and its socket, as the kubelet sees it."""
        return message_class("PluginInfo")(
            type="CSIPlugin",
            name=self._driver,
            endpoint=str(self._endpoint),
            supported_versions=["1.0.0"],
        )

    def notify_registration_status(self, request: Any) -> Any:
        """Log what became of the registration; the kubelet repeats one that failed."""
        if request.plugin_registered:
            _log.info("registered", driver=self._driver)
        else:
            _log.error("not registered", driver=self._driver, reason=request.error)
        return message_class("RegistrationStatusResponse")()


def start_server(service: CsiService, socket: Path) -> Any:
    """Serve the CSI on a Unix socket, in place of an older one; return the gRPC server."""
    return _start(service, CSI_SERVICES, socket)


def start_registration(service: RegistrationService, socket: Path) -> Any:
    """Serve the registration on a Unix socket, which the kubelet discovers; return the server."""
    return _start(service, REGISTRATION_SERVICE, socket)


def _start(service: object, services: dict[str, Methods], socket: Path) -> Any:
    socket.unlink(missing_ok=True)
    server = grpc.server(ThreadPoolExecutor(CALLS_AT_ONCE))
    for name, methods in services.items():
        handlers = {method: _handler(service, method, *names) for method, names in methods.items()}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, handlers),))
    server.add_insecure_port(f"unix://{socket}")
    server.start()
    return server


def _handler(service: object, method: str, request: str, response: str) -> Any:
    snake = "".join(f"_{each.lower()}" if each.isupper() else each for each in method)
    answer: Callable[[Any], Any] = getattr(service, snake.removeprefix("_"))

    def handle(message: Any, context: Any) -> Any:
        try:
            return answer(message)
        except tuple(_CODES) as error:
            code = next(each for kind, each in _CODES.items() if isinstance(error, kind))
            _log.warning("refused", method=method, code=code.name, reason=str(error))
            context.abort(code, str(error))

    return grpc.unary_unary_rpc_method_handler(
        handle,
        request_deserializer=message_class(request).FromString,
        response_serializer=message_class(response).SerializeToString,
    )
