"""The one thing that operators read: which stored results may stand for runs of a suite."""

from fastapi import APIRouter, Request, Response
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool

from inferometer_api.results.gzip_members import IncompleteError
from inferometer_api.results.result_transport import TooLargeError
from inferometer_api.suite.reuse import ReuseAnswer, ReuseRequest
from inferometer_results.service.access.cluster import Caller
from inferometer_results.service.answers import json_answer
from inferometer_results.service.api import schema
from inferometer_results.service.api.ingest import Ingest, NamespacePath, read_document
from inferometer_results.store.reusable import find_reusable
from inferometer_results.store.visibility import READABLE


def reuse_routes(ingest: Ingest) -> APIRouter:
    """Return the route on which an operator finds results of a namespace that it serves."""
    routes = APIRouter(prefix="/api/v1")

    async def find_reusable_results(request: Request, namespace: NamespacePath) -> Response:
        """Find stored VALID results that are equal to runs of a suite, for its operator."""
        return await _find(ingest, request, namespace)

    routes.add_api_route(
        "/namespaces/{namespace}/reusable-results",
        find_reusable_results,
        methods=["POST"],
        response_class=Response,
        responses={
            200: {"model": ReuseAnswer},
            **{code: {"model": schema.ErrorBody} for code in (400, 403, 404, 413, 422, 429, 503)},
        },
    )
    return routes


async def _find(ingest: Ingest, request: Request, namespace: str) -> Response:
    caller: Caller = request.state.caller
    if caller.way != "operator":
        return json_answer({"error": "Only an operator finds results for suites."}, 403)
    uid = await ingest.admitted_namespace(request, namespace)
    if isinstance(uid, Response):
        return uid
    try:
        wanted = ReuseRequest.read_json(await read_document(request))
    except TooLargeError as error:
        return json_answer({"error": str(error)}, 413)
    except IncompleteError as error:
        return json_answer({"error": str(error)}, 400)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the body"
        return json_answer({"error": f"{place} is wrong: {first['msg']}."}, 422)
    # Of this namespace alone, whatever else its operator serves.
    READABLE.set(frozenset({uid}))
    found = await run_in_threadpool(find_reusable, ingest.store, ingest.cluster_uid, wanted)
    return json_answer(found.model_dump(mode="json", by_alias=True, exclude_none=True))
