"""Is there an ONNX Runtime to serve with?"""

from importlib.util import find_spec

from inferometer_cli.exits import RefusedError


def check_runtime() -> None:
    """Raise RefusedError where Inferometer was installed without one of its two runtimes."""
    if find_spec("onnxruntime") is None:
        raise RefusedError(
            "A server was asked for, but ONNX Runtime is not installed: install inferometer[cpu], "
            "or inferometer[gpu] on a machine with an NVIDIA GPU."
        )
