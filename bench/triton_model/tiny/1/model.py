"""The tiny model for Triton's Python backend."""

import os
import sys
from typing import Any

# The backend starts Python without looking at PYTHONPATH itself.
sys.path.append(os.environ["PYTHONPATH"])

import numpy as np
import triton_python_backend_utils as backend  # type: ignore[import-not-found]

WEIGHTS = np.arange(1, 5, dtype=np.float32)


class TritonPythonModel:
    """Adds the weights to four numbers, as cheaply as this backend can."""

    def execute(self, requests: list[Any]) -> list[Any]:
        """Return one response for each request."""
        return [
            backend.InferenceResponse(
                [
                    backend.Tensor(
                        "y", backend.get_input_tensor_by_name(request, "x").as_numpy() + WEIGHTS
                    )
                ]
            )
            for request in requests
        ]
