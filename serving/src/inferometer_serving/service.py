"""What is this server's state, and what does it tell of itself?"""

import json
import os
from enum import Enum
from importlib.metadata import version
from typing import Any
from uuid import uuid4

from inferometer_serving.errors import Refusal, RequestRefusedError
from inferometer_serving.infer.request import RequestReader
from inferometer_serving.infer.signature import TensorSpec
from inferometer_serving.metrics import Metrics
from inferometer_serving.model.engine import Engine, WarmUp
from inferometer_serving.options import Device, ServeOptions
from inferometer_serving.worker import Worker

MODEL_VERSION = "1"
SERVER_NAME = "inferometer"
_PLATFORM = "onnxruntime_onnx"
_EXTENSIONS = ("binary_tensor_data", "model_configuration")


class Phase(Enum):
    """Where a server stands between its start and its end."""

    LOADING = "loading its model"
    READY = "ready"
    DRAINING = "draining: it ends once the requests in flight are answered"


class Service:
    """The state that both protocols share. Everything here belongs to the event loop's thread."""

    def __init__(self, options: ServeOptions, worker: Worker) -> None:
        self.options = options
        self.worker = worker
        self.version = version("inferometer")
        self.metrics = Metrics()
        self.phase = Phase.LOADING
        self.inline_body_bytes = 0
        self._engine: Engine | None = None
        self._serving: tuple[Engine, RequestReader] | None = None
        self._config: dict[str, Any] | None = None

    def become_ready(self, engine: Engine, warm: WarmUp) -> None:
        """Serve inferences from now on, unless the server is already draining."""
        self._engine = engine
        self._config = model_config(self.options, engine, warm, self.version)
        self.inline_body_bytes = warm.inline_body_bytes
        if self.phase is Phase.LOADING:
            self.phase = Phase.READY
            self._serving = engine, RequestReader(engine.signature)
            self.metrics.is_ready = True

    def drain(self) -> None:
        """Take no new inferences from now on."""
        self.phase = Phase.DRAINING
        self._serving = None
        self.metrics.is_ready = False

    @property
    def is_ready(self) -> bool:
        """Say whether inferences are served."""
        return self.phase is Phase.READY

    def engine(self) -> tuple[Engine, RequestReader]:
        """Return what serves inferences. Raises RequestRefusedError unless the server is ready."""
        if self._serving is None:
            raise self.unavailable()
        return self._serving

    def unavailable(self) -> RequestRefusedError:
        """Return the error for a request that comes too early or too late."""
        return RequestRefusedError(Refusal.UNAVAILABLE, f"The server is {self.phase.value}.")

    @property
    def pending(self) -> int:
        """Return how many inference requests wait for the worker thread or are computed in it."""
        return 0 if self.phase is Phase.LOADING else self.worker.pending

    def runs_inline(self, body_bytes: int) -> bool:
        """Say whether a request of this size is computed in the event loop: first come first."""
        return body_bytes <= self.inline_body_bytes and self.worker.pending == 0

    def check_model(self, name: str, model_version: str) -> None:
        """Raise RequestRefusedError unless this model is served."""
        if name != self.options.model_name:
            raise RequestRefusedError(
                Refusal.NOT_FOUND,
                f"The model '{name}' was asked for, but this server has only "
                f"'{self.options.model_name}': name that one.",
            )
        if model_version not in ("", MODEL_VERSION):
            raise RequestRefusedError(
                Refusal.NOT_FOUND,
                f"Version '{model_version}' of the model '{name}' was asked for, but this server "
                f"has only version {MODEL_VERSION}: name that one, or none.",
            )

    def server_metadata(self) -> dict[str, Any]:
        """Return the protocol's description of the server."""
        return {"name": SERVER_NAME, "version": self.version, "extensions": list(_EXTENSIONS)}

    def model_metadata(self) -> dict[str, Any]:
        """Return the protocol's description of the model. Raises RequestRefusedError early on."""
        if self._engine is None:
            raise self.unavailable()
        signature = self._engine.signature
        return {
            "name": self.options.model_name,
            "versions": [MODEL_VERSION],
            "platform": _PLATFORM,
            "inputs": [_described(each) for each in signature.inputs],
            "outputs": [_described(each) for each in signature.outputs],
        }

    def config(self) -> dict[str, Any]:
        """Return the model's configuration. Raises RequestRefusedError early on."""
        if self._config is None:
            raise self.unavailable()
        return self._config


def model_config(
    options: ServeOptions, engine: Engine, warm: WarmUp, server_version: str
) -> dict[str, Any]:
    """Return the configuration in the form of Triton's ModelConfig message as JSON.

    `max_batch_size` 0 is Triton's word for: requests are never joined, and shapes are whole.
    """
    signature = engine.signature
    kind = "KIND_GPU" if options.device is Device.GPU else "KIND_CPU"
    parameters = facts(options, engine, warm, server_version)
    return {
        "name": options.model_name,
        "platform": _PLATFORM,
        "backend": "onnxruntime",
        "max_batch_size": 0,
        "input": [_configured(each) for each in signature.inputs],
        "output": [_configured(each) for each in signature.outputs],
        "instance_group": [{"name": options.model_name, "kind": kind, "count": 1}],
        "parameters": {key: {"string_value": value} for key, value in parameters.items()},
    }


def facts(
    options: ServeOptions, engine: Engine, warm: WarmUp, server_version: str
) -> dict[str, str]:
    """Return what a measurement must tell of this server, each fact as text."""
    session = engine.model.session
    placed = session.placement
    return {
        "inferometer.server_version": server_version,
        "inferometer.process_id": str(os.getpid()),
        # In containers every server has the same process number.
        "inferometer.instance_id": uuid4().hex,
        "inferometer.model_sha256": engine.model.sha256,
        "inferometer.external_data_sha256": json.dumps(engine.model.external_sha256),
        "inferometer.runtime": "onnxruntime",
        "inferometer.runtime_version": session.runtime_version,
        "inferometer.device": options.device.value,
        "inferometer.providers": ",".join(session.providers),
        "inferometer.nodes_by_provider": json.dumps(placed.nodes_by_provider),
        "inferometer.compute_nodes_fell_back": str(placed.compute_nodes_fell_back),
        "inferometer.threads": str(options.threads),
        "inferometer.warm_up_batch_sizes": ",".join(map(str, warm.batch_sizes)),
        "inferometer.load_seconds": f"{engine.model.load_seconds:.6f}",
        "inferometer.warm_up_seconds": f"{warm.seconds:.6f}",
        "inferometer.inline_body_bytes": str(warm.inline_body_bytes),
    }


def _described(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "datatype": spec.datatype.name, "shape": list(spec.shape)}


def _configured(spec: TensorSpec) -> dict[str, Any]:
    word = "STRING" if spec.datatype.item_bytes is None else spec.datatype.name
    return {"name": spec.name, "data_type": f"TYPE_{word}", "dims": list(spec.shape)}
