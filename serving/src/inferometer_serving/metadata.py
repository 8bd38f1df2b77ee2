"""The server's metadata: model metadata, configuration, and the facts that a result records."""

import json
import os
from typing import Any
from uuid import uuid4

from inferometer_serving.cpu import instruction_set, model_name, pinned_cpus
from inferometer_serving.infer.signature import TensorSpec
from inferometer_serving.machine import machine_facts
from inferometer_serving.model.loading import LoadedModel, WarmUp
from inferometer_serving.options import Device, ServeOptions

MODEL_VERSION = "1"
SERVER_NAME = "inferometer"
_EXTENSIONS = (
    "binary_tensor_data",
    "model_configuration",
    "model_repository",
    "statistics",
    "spans",
)


def server_metadata(server_version: str, *, has_profiles: bool = False) -> dict[str, Any]:
    """Return the protocol's description of the server."""
    extensions = [*_EXTENSIONS, "layers", "profile"] if has_profiles else list(_EXTENSIONS)
    return {"name": SERVER_NAME, "version": server_version, "extensions": extensions}


def model_metadata(options: ServeOptions, model: LoadedModel) -> dict[str, Any]:
    """Return the protocol's description of the model; shapes are whole, -1 is an open axis."""
    signature = model.session.signature
    return {
        "name": options.model_name,
        "versions": [MODEL_VERSION],
        "platform": f"{options.engine}_onnx",
        "inputs": [_tensor_metadata(each) for each in signature.inputs],
        "outputs": [_tensor_metadata(each) for each in signature.outputs],
    }


def model_config(
    options: ServeOptions, model: LoadedModel, warm: WarmUp, server_version: str
) -> dict[str, Any]:
    """Return the configuration in the form of Triton's ModelConfig message as JSON.

    As in Triton, `max_batch_size` 0 means that requests are never joined and shapes include the
    batch. Otherwise shapes are those of one sample.
    """
    signature = model.session.signature
    kind = "KIND_GPU" if options.device is Device.GPU else "KIND_CPU"
    parameters = facts(options, model, warm, server_version)
    first = 1 if options.max_batch_size else 0
    config: dict[str, Any] = {
        "name": options.model_name,
        "platform": f"{options.engine}_onnx",
        "backend": options.engine.value,
        "max_batch_size": options.max_batch_size,
        "input": [_configured(each, first) for each in signature.inputs],
        "output": [_configured(each, first) for each in signature.outputs],
        "instance_group": [{"name": options.model_name, "kind": kind, "count": options.instances}],
        "parameters": {key: {"string_value": value} for key, value in parameters.items()},
    }
    if options.max_batch_size:
        delay = options.max_delay_microseconds
        config["dynamic_batching"] = {"max_queue_delay_microseconds": delay}
    return config


def facts(
    options: ServeOptions, model: LoadedModel, warm: WarmUp, server_version: str
) -> dict[str, str]:
    """Return the facts that a result records of this server, each as text."""
    session = model.session
    placed = session.placement
    return {
        "inferometer.server_version": server_version,
        "inferometer.process_id": str(os.getpid()),
        # In containers every server has the same process number.
        "inferometer.instance_id": uuid4().hex,
        "inferometer.model_sha256": model.sha256,
        "inferometer.external_data_sha256": json.dumps(model.external_sha256),
        "inferometer.runtime": options.engine.value,
        "inferometer.runtime_version": session.runtime_version,
        "inferometer.device": options.device.value,
        "inferometer.providers": ",".join(session.providers),
        "inferometer.nodes_by_provider": json.dumps(placed.nodes_by_provider),
        "inferometer.compute_nodes_fell_back": str(placed.compute_nodes_fell_back),
        "inferometer.threads": str(session.threads),
        "inferometer.requested_precision": options.precision.value,
        "inferometer.precision": session.precisions.effective,
        "inferometer.layers_by_precision": session.precisions.to_json(),
        "inferometer.instruction_set": instruction_set(),
        "inferometer.cpu_model": model_name(),
        "inferometer.pinned_cpus": str(pinned_cpus()),
        "inferometer.instances": str(options.instances),
        "inferometer.max_batch_size": str(options.max_batch_size),
        "inferometer.max_delay_microseconds": str(options.max_delay_microseconds),
        "inferometer.warm_up_batch_sizes": ",".join(map(str, warm.batch_sizes)),
        "inferometer.load_seconds": f"{model.load_seconds:.6f}",
        "inferometer.warm_up_seconds": f"{warm.seconds:.6f}",
        "inferometer.inline_body_bytes": str(warm.inline_body_bytes),
        **{f"inferometer.{name}": value for name, value in machine_facts().items()},
        **{f"inferometer.{name}": value for name, value in _manifest(model).items() if value},
        **{f"inferometer.{name}": value for name, value in session.facts.items()},
    }


def _manifest(model: LoadedModel) -> dict[str, str]:
    return {"steps": ",".join(model.steps), "manifest_sha256": model.manifest_sha256}


def _tensor_metadata(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "datatype": spec.datatype.name, "shape": list(spec.shape)}


def _configured(spec: TensorSpec, first: int) -> dict[str, Any]:
    word = "STRING" if spec.datatype.item_bytes is None else spec.datatype.name
    return {"name": spec.name, "data_type": f"TYPE_{word}", "dims": list(spec.shape[first:])}
