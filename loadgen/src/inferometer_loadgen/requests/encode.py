"""Encoder of inference requests.

tritonclient encodes each request once, before the measurement. The bytes are then sent as often as
needed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tritonclient.utils import (  # type: ignore[import-untyped]  # has no types
    InferenceServerException,
)

from inferometer_api.results.result import Tensor
from inferometer_loadgen.requests.inputs import InputRefusedError, Tensors
from inferometer_loadgen.wire import EncodedRequest

BINARY_EXTENSION = "binary_tensor_data"
"""The server metadata's name for tensors as bytes behind the JSON of an HTTP body."""


@dataclass(frozen=True, slots=True)
class Encoder:
    """Encodes requests to one model over one protocol."""

    protocol: Literal["HTTP", "GRPC"]
    model_name: str
    model_version: str
    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]
    binary: bool
    """Whether HTTP bodies carry tensors as bytes in both directions; gRPC always does."""

    def encode(self, tensors: Tensors) -> EncodedRequest:
        """Encode one request; raises InputRefusedError if HTTP cannot carry it as JSON."""
        try:
            return self._grpc(tensors) if self.protocol == "GRPC" else self._http(tensors)
        except InferenceServerException as error:
            raise InputRefusedError(
                f"The inputs cannot be encoded for {self.protocol}: {error.message()}."
            ) from error

    def _http(self, tensors: Tensors) -> EncodedRequest:
        from tritonclient import (  # type: ignore[import-untyped]  # noqa: PLC0415 - gRPC needs it not, and it takes long
            http as triton_http,
        )

        inputs = []
        for tensor in self.inputs:
            array = tensors[tensor.name]
            part = triton_http.InferInput(tensor.name, list(array.shape), tensor.datatype)
            inputs.append(part.set_data_from_numpy(array, binary_data=self.binary))
        outputs = [
            triton_http.InferRequestedOutput(tensor.name, binary_data=self.binary)
            for tensor in self.outputs
        ]
        body, json_length = triton_http.InferenceServerClient.generate_request_body(
            inputs, outputs=outputs or None
        )
        return EncodedRequest(body, json_length)

    def _grpc(self, tensors: Tensors) -> EncodedRequest:
        from tritonclient import (  # noqa: PLC0415 - HTTP needs it not, and it takes long
            grpc as triton_grpc,
        )
        from tritonclient.grpc.service_pb2 import (  # type: ignore[import-untyped]  # noqa: PLC0415 - the same
            ModelInferRequest,
        )

        request: Any = ModelInferRequest(
            model_name=self.model_name, model_version=self.model_version
        )
        for tensor in self.inputs:
            array = tensors[tensor.name]
            part = triton_grpc.InferInput(tensor.name, list(array.shape), tensor.datatype)
            part.set_data_from_numpy(array)
            request.inputs.append(part._get_tensor())  # noqa: SLF001 - the package offers no public way to serialize a request
            request.raw_input_contents.append(part._get_content())  # noqa: SLF001 - the same
        for tensor in self.outputs:
            request.outputs.add(name=tensor.name)
        return EncodedRequest(request.SerializeToString())
