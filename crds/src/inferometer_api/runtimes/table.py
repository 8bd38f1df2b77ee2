"""Table of runtimes by their value of `spec.server.runtime`.

A new runtime needs its own module with a descriptor, and a row here. A runtime of the API that has
no row is not available in this version.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from inferometer_api.runtimes.custom import CUSTOM
from inferometer_api.runtimes.descriptor import RuntimeDescriptor, ServerLaunch
from inferometer_api.runtimes.external import EXTERNAL
from inferometer_api.runtimes.kserve import KSERVE
from inferometer_api.runtimes.mlserver import MLSERVER
from inferometer_api.runtimes.onnxruntime import ONNX_RUNTIME
from inferometer_api.runtimes.openvino import OPENVINO
from inferometer_api.runtimes.triton import TRITON
from inferometer_api.spec.run import RunSpec
from inferometer_api.spec.server import Runtime

_ROWS: dict[Runtime, RuntimeDescriptor] = {
    "OnnxRuntime": ONNX_RUNTIME,
    "OpenVino": OPENVINO,
    "Triton": TRITON,
    "MLServer": MLSERVER,
    "KServe": KSERVE,
    "Custom": CUSTOM,
    "External": EXTERNAL,
}
RUNTIMES: Mapping[Runtime, RuntimeDescriptor] = MappingProxyType(_ROWS)


def runtimes_that(has: Callable[[RuntimeDescriptor], bool]) -> tuple[Runtime, ...]:
    """Return the names of the runtimes whose descriptor has a property, in the table's order."""
    return tuple(name for name, each in RUNTIMES.items() if has(each))


def is_by_kserve(runtime: object) -> bool:
    """Return whether KServe creates the pods of a server with this runtime, of a raw spec."""
    return any(
        each.launch is not None and each.launch.by_kserve
        for name, each in RUNTIMES.items()
        if name == runtime
    )


def launch_of(spec: RunSpec) -> ServerLaunch:
    """Return how the server of a run is started.

    Raises ValueError if it is External or its runtime is not available.
    """
    descriptor = RUNTIMES.get(spec.server.runtime)
    if descriptor is None or descriptor.launch is None:
        raise ValueError(f"Inferometer starts no server with the runtime {spec.server.runtime}.")
    return descriptor.launch
