"""Lets callers of a cluster's service annotate a result, and delete it."""

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.concurrency import run_in_threadpool

from inferometer_results.annotation import AnnotationError, check_annotation
from inferometer_results.service.access.cluster import Caller
from inferometer_results.service.access.reviews import RunAccess, Verb
from inferometer_results.service.answers import find_row, json_answer, refused_type
from inferometer_results.service.api import schema
from inferometer_results.service.api.ingest import Ingest
from inferometer_results.store.index_rows import JournalRow
from inferometer_results.store.store import Store
from inferometer_results.store.visibility import READABLE

_MOST_BYTES = 16 << 10
_IdPath = Annotated[str, Path(description="ID of a result, or its beginning.")]


class Annotation(BaseModel):
    """What a person adds to a result."""

    model_config = ConfigDict(extra="forbid")

    action: str
    """tag, untag, retract, restore, accept-change or reject-change."""
    text: Annotated[str, Field(max_length=4096)] = ""
    """The tag, the reason, or the finding."""


@dataclass(frozen=True, slots=True)
class Changes:
    """The routes' decisions: the right in the namespace of a result that the caller may read."""

    ingest: Ingest

    @property
    def _store(self) -> Store:
        return self.ingest.store

    async def annotate(self, request: Request, prefix: str) -> Response:
        """Add an entry to the journal of a result."""
        found = await self._changeable(request, prefix, "create")
        if isinstance(found, Response):
            return found
        try:
            wanted = Annotation.model_validate_json(await _body(request))
            check_annotation(wanted.action, wanted.text)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"])) or "the body"
            return _fault(f"{place} is wrong: {first['msg']}.", 400)
        except AnnotationError as error:
            return _fault(str(error), 400)
        caller: Caller = request.state.caller
        entry = JournalRow(self.ingest.now(), caller.identity.user, wanted.action, wanted.text)
        await run_in_threadpool(self._store.note, found, entry)
        return json_answer({"id": found}, 201)

    async def delete(self, request: Request, prefix: str) -> Response:
        """Delete a result with all that was added to it."""
        found = await self._changeable(request, prefix, "delete")
        if isinstance(found, Response):
            return found
        await run_in_threadpool(self._store.delete, [found])
        return json_answer({"id": found})

    async def _changeable(self, request: Request, prefix: str, verb: Verb) -> str | Response:
        """Return the ID of a result that the caller may change, otherwise the refusal.

        One that they may not read does not exist for them.
        """
        caller: Caller = request.state.caller
        if caller.way != "person":
            return _fault("Operators deliver results, and change none.", 403)
        if not self.ingest.limit.takes(caller.identity.user):
            answer = _fault("Too many changes: send fewer a second.", 429)
            answer.headers["retry-after"] = "1"
            return answer
        refused = refused_type(request) if request.method == "POST" else None
        if refused is not None:
            return refused
        authority = self.ingest.authority
        READABLE.set(await authority.readable(caller.identity))
        id_ = await run_in_threadpool(self._store.resolve, prefix)
        row = await run_in_threadpool(find_row, self._store, id_)
        namespace = row["namespace"]
        exists = namespace and await authority.namespace_uid(namespace) == row["namespace_uid"]
        # Results of a namespace that is gone need the right in all namespaces.
        right = RunAccess(verb, namespace if exists else "")
        if await authority.may(caller.identity, right):
            return id_
        where = f"in namespace {namespace}" if exists else "in all namespaces"
        return _fault(f"{caller.identity.user} may not {verb} benchmarkruns {where}.", 403)


def change_routes(changes: Changes) -> APIRouter:
    """Return the routes that change what is stored."""
    routes = APIRouter(prefix="/api/v1")

    async def annotate_result(request: Request, id_: _IdPath) -> Response:
        """Add a tag, a retraction or a finding to a result, or take one back."""
        return await changes.annotate(request, id_)

    async def delete_result(request: Request, id_: _IdPath) -> Response:
        """Delete a result with all that was added to it."""
        return await changes.delete(request, id_)

    faults: dict[int | str, dict[str, Any]] = {
        code: {"model": schema.ErrorBody} for code in (400, 403, 404, 415, 429, 503)
    }
    routes.add_api_route(
        "/results/{id_}/journal",
        annotate_result,
        methods=["POST"],
        response_class=Response,
        responses={201: {"model": schema.Changed}, **faults},
        openapi_extra={
            "requestBody": {
                "content": {"application/json": {"schema": Annotation.model_json_schema()}},
                "required": True,
            }
        },
    )
    routes.add_api_route(
        "/results/{id_}",
        delete_result,
        methods=["DELETE"],
        response_class=Response,
        responses={200: {"model": schema.Changed}, **faults},
    )
    return routes


async def _body(request: Request) -> bytes:
    """Return the body of a request; one that is too long is cut, and no JSON then."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > _MOST_BYTES:
            return bytes(body[:_MOST_BYTES])
    return bytes(body)


def _fault(sentence: str, status: int) -> Response:
    return json_answer({"error": sentence}, status)
