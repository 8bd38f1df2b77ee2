"""The oracle's gRPC, by the reference implementation and not by ours."""

import asyncio
from typing import Any

import grpc  # type: ignore[import-untyped]  # has no types
from tritonclient.grpc import (  # type: ignore[import-untyped]  # has no types
    service_pb2,
    service_pb2_grpc,
)

from support.oracle_http import DOCUMENTS, MODEL, WIDTH, Asked, Take, first_number


async def grpc_front(take: Take) -> tuple[Any, int]:
    """Start a server on a free port; return both."""
    server = grpc.aio.server()
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(_Servicer(take), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    return server, port


class _Servicer(service_pb2_grpc.GRPCInferenceServiceServicer):  # type: ignore[misc]  # has no types
    """The protocol's methods by their own names."""

    def __init__(self, take: Take) -> None:
        self._take = take

    async def ServerReady(self, _request: Any, _context: Any) -> Any:  # noqa: N802 - gRPC's name
        return service_pb2.ServerReadyResponse(ready=True)

    async def ModelReady(self, _request: Any, _context: Any) -> Any:  # noqa: N802 - gRPC's name
        return service_pb2.ModelReadyResponse(ready=True)

    async def ServerMetadata(self, _request: Any, _context: Any) -> Any:  # noqa: N802 - gRPC's name
        return service_pb2.ServerMetadataResponse(**DOCUMENTS["/v2"])

    async def ModelMetadata(self, _request: Any, _context: Any) -> Any:  # noqa: N802 - gRPC's name
        return service_pb2.ModelMetadataResponse(**DOCUMENTS[f"/v2/models/{MODEL}"])

    async def ModelInfer(self, request: Any, context: Any) -> Any:  # noqa: N802 - gRPC's name
        samples = request.inputs[0].shape[0]
        leaves: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def leave() -> None:
            if not leaves.done():
                leaves.set_result(None)

        connection = int(context.peer().rpartition(":")[2])
        number = first_number(request.raw_input_contents[0])
        self._take(Asked(samples, connection, number), leave)
        await leaves
        response = service_pb2.ModelInferResponse(model_name=MODEL)
        response.outputs.add(name="y", datatype="FP32", shape=[samples, WIDTH])
        response.raw_output_contents.append(bytes(4 * samples * WIDTH))
        return response
