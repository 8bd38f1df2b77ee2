"""Encoder of inference requests.

tritonclient encodes each request once, before the measurement. The bytes are then sent as often as
needed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tritonclient.utils import (  # type: ignore[import-untyped]  # has no types
    InferenceServerException,
)

from inferometer_api.results.result import Tensor
from inferometer_api.spec.load import Load
from inferometer_api.wording import as_sentence
from inferometer_loadgen.requests.inputs import InputRefusedError, Tensors
from inferometer_loadgen.wire import EncodedRequest
from inferometer_loadgen.wire.contract import printable_line

BINARY_EXTENSION = "binary_tensor_data"
"""The server metadata's name for tensors as bytes behind the JSON of an HTTP body."""


def uses_binary(load: Load, extensions: Sequence[str]) -> bool:
    """Return whether requests carry tensors as binary data; `extensions` are the server's own."""
    if load.protocol == "GRPC":
        return True
    return load.tensors == "Binary" or (load.tensors == "Auto" and BINARY_EXTENSION in extensions)


def json_note(load: Load, extensions: Sequence[str]) -> Iterator[str]:
    """Yield a sentence if tensors are sent as JSON because the server does not offer binary."""
    if load.tensors == "Auto" and not uses_binary(load, extensions):
        yield (
            "The server's metadata do not list the extension binary_tensor_data, so requests and "
            "replies carry tensors as JSON, which costs both sides more CPU. Set load.tensors: "
            "Binary to try binary data."
        )


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
                f"The inputs cannot be encoded as {'binary data' if self.binary else 'JSON'}: "
                f"{as_sentence(printable_line(str(error.message())))}"
            ) from error

    def _sent(self, tensors: Tensors) -> list[Tensor]:
        """Return the inputs that have data: optional ones may have none."""
        return [tensor for tensor in self.inputs if tensor.name in tensors]

    def _http(self, tensors: Tensors) -> EncodedRequest:
        from tritonclient import (  # type: ignore[import-untyped]  # noqa: PLC0415 - gRPC needs it not, and it takes long
            http as triton_http,
        )

        inputs = []
        for tensor in self._sent(tensors):
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
        for tensor in self._sent(tensors):
            array = tensors[tensor.name]
            part = triton_grpc.InferInput(tensor.name, list(array.shape), tensor.datatype)
            part.set_data_from_numpy(array)
            request.inputs.append(part._get_tensor())  # noqa: SLF001 - the package offers no public way to serialize a request
            request.raw_input_contents.append(part._get_content())  # noqa: SLF001 - the same
        for tensor in self.outputs:
            request.outputs.add(name=tensor.name)
        return EncodedRequest(request.SerializeToString())
