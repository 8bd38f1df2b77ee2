"""Requests for timings of layers, which a server has a process of its own measure."""

import subprocess
import sys
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from inferometer_models.errors import ModelRefusedError
from inferometer_serving.model.session import Interrupt
from inferometer_serving.options import ServeOptions

Kind = Literal["Model", "Kernels", "Calls"]
KINDS: tuple[Kind, ...] = ("Model", "Kernels", "Calls")
"""Model: the whole model by each engine. Kernels: its layers too. Calls: the layers of several
models by ONNX Runtime."""


@dataclass(frozen=True, slots=True)
class LayersRequest:
    """What a client requests."""

    kind: Kind = "Kernels"
    models: tuple[str, ...] = ()
    """Addresses of built-in models, next to the model that is served."""
    batch_size: int = 1
    budget_seconds: int = 600
    advise: bool = False
    """Whether the model is timed with other settings, and rewritten, as well."""
    model_name: str = ""
    """What the server calls the model, whose file has the same name in every pod; empty: that of
    the file."""


def timed_layers(
    options: ServeOptions, request: LayersRequest, interrupt: Interrupt
) -> dict[str, Any]:
    """Return the timings that a process of its own measured, as JSON values.

    Raises ModelRefusedError with the reason if there are none.
    """
    arguments = [
        *(sys.executable, "-m", "inferometer_serving.layers", "measure", str(options.model)),
        *("--kind", request.kind, "--batch-size", str(request.batch_size)),
        *("--serving-engine", options.engine, "--serving-precision", options.precision),
        *("--graph-optimization", options.graph_optimization, "--name", options.model_name),
        *("--threads", str(options.threads), "--budget-seconds", str(request.budget_seconds)),
        *("--shapes", orjson.dumps(options.warm_up_shapes).decode()),
        *(word for each in request.models for word in ("--zoo", each)),
        *(("--advise",) if request.advise else ()),
    ]
    with subprocess.Popen(  # noqa: S603 - our own program
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        interrupt.add(process.kill)
        try:
            output, errors = process.communicate()
        finally:
            interrupt.remove(process.kill)
    if process.returncode:
        lines = errors.decode("utf-8", "replace").strip().splitlines()
        reason = lines[-1] if lines else f"its process ended with {process.returncode}"
        raise ModelRefusedError(f"No layers were timed: {reason.removeprefix('refused: ')}")
    found: dict[str, Any] = orjson.loads(output.splitlines()[-1])
    return found
