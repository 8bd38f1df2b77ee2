"""The oracle's gRPC, by the reference implementation and not by ours."""

import asyncio
from typing import Any

import grpc  # type: ignore[import-untyped]  # has no types
from tritonclient.grpc import (  # type: ignore[import-untyped]  # has no types
    model_config_pb2,
    service_pb2,
    service_pb2_grpc,
)
from typing_extensions import override

from support.oracle_http import (
    DOCUMENTS,
    MODEL,
    WIDTH,
    Behaviour,
    OracleRequest,
    first_number,
    output_of,
)
from support.oracle_script import Fault


async def grpc_front(behaviour: Behaviour, host: str, credentials: Any) -> tuple[Any, int]:
    """Start a server on a free port, with TLS if there are credentials; return both."""
    server = grpc.aio.server(interceptors=[_Listener(behaviour)])
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(_Servicer(behaviour), server)
    port = (
        server.add_insecure_port(f"{host}:0")
        if credentials is None
        else server.add_secure_port(f"{host}:0", credentials)
    )
    await server.start()
    return server, port


class _Listener(grpc.aio.ServerInterceptor):  # type: ignore[misc]  # has no types
    """Writes down the metadata of each call."""

    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour

    @override
    async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        pairs = handler_call_details.invocation_metadata
        self._behaviour.headers.append({key: each for key, each in pairs if isinstance(each, str)})
        return await continuation(handler_call_details)


class _Servicer(service_pb2_grpc.GRPCInferenceServiceServicer):  # type: ignore[misc]  # has no types
    """The protocol's methods by their own names."""

    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour

    async def ServerReady(self, _request: Any, _context: Any) -> Any:  # noqa: N802 - gRPC's name
        return service_pb2.ServerReadyResponse(ready=self._behaviour.script.ready)

    async def ModelReady(self, _request: Any, _context: Any) -> Any:  # noqa: N802 - gRPC's name
        return service_pb2.ModelReadyResponse(ready=self._behaviour.script.ready)

    async def ServerMetadata(self, _request: Any, _context: Any) -> Any:  # noqa: N802 - gRPC's name
        return service_pb2.ServerMetadataResponse(**DOCUMENTS["/v2"])

    async def ModelMetadata(self, request: Any, context: Any) -> Any:  # noqa: N802 - gRPC's name
        if request.name != MODEL:
            await context.abort(grpc.StatusCode.NOT_FOUND, "no such model")
        found = DOCUMENTS[f"/v2/models/{MODEL}"]
        inputs = self._behaviour.script.inputs
        if inputs is not None:
            found = {**found, "inputs": inputs}
        return service_pb2.ModelMetadataResponse(**found)

    async def ModelConfig(self, _request: Any, context: Any) -> Any:  # noqa: N802 - gRPC's name
        parameters = self._behaviour.parameters()
        if parameters is None:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "no configuration")
        strings = {
            key: model_config_pb2.ModelParameter(string_value=value)
            for key, value in (parameters or {}).items()
        }
        config = model_config_pb2.ModelConfig(name=MODEL, parameters=strings)
        return service_pb2.ModelConfigResponse(config=config)

    async def ModelInfer(self, request: Any, context: Any) -> Any:  # noqa: N802 - gRPC's name
        samples = request.inputs[0].shape[0]
        leaves: asyncio.Future[Fault | None] = asyncio.get_running_loop().create_future()

        def leave(fault: Fault | None) -> None:
            # A call without an answer is cancelled by the client's deadline.
            if not leaves.done() and fault != "silence":
                leaves.set_result(fault)

        connection = int(context.peer().rpartition(":")[2])
        number = first_number(request.raw_input_contents[0])
        self._behaviour.take(OracleRequest(samples, connection, number), leave)
        fault = await leaves
        if fault == "status":
            await context.abort(grpc.StatusCode.INTERNAL, "scripted failure")
        response = service_pb2.ModelInferResponse(model_name=MODEL)
        name, datatype, shape = output_of(samples, fault)
        response.outputs.add(name=name, datatype=datatype, shape=shape)
        response.raw_output_contents.append(bytes(4 * samples * WIDTH))
        return response
