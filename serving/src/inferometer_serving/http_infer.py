"""How is one inference request over HTTP answered, from its body's bytes to the reply's?"""

from http import HTTPStatus

import structlog

from inferometer_serving.engine import Engine
from inferometer_serving.errors import RequestRefusedError, invalid
from inferometer_serving.http_body import compress, decompress
from inferometer_serving.http_head import Head
from inferometer_serving.http_reply import (
    BINARY,
    JSON,
    Reply,
    error_reply,
    head_of,
    on_the_wire,
    refusal_reply,
)
from inferometer_serving.infer_json import InferencePlan, PlanReader, answer, raw_plan
from inferometer_serving.service import MODEL_VERSION
from inferometer_serving.tensors import Array, Raw, to_raw

_COMPRESS_FROM_BYTES = 1024
"""Smaller answers would hardly shrink; Accept-Encoding is a permission, not a demand."""


def answer_infer(
    engine: Engine, plans: PlanReader, head: Head, body: Raw, max_body_bytes: int
) -> tuple[int, list[Raw]]:
    """Return the status and the bytes that answer a request; errors become answers too."""
    try:
        return HTTPStatus.OK, _answer(engine, plans, head, body, max_body_bytes)
    except RequestRefusedError as error:
        reply = refusal_reply(error)
    except Exception as error:  # noqa: BLE001 - one request's fault must not end the server
        structlog.get_logger().error("request failed", error=repr(error))
        reply = error_reply(
            HTTPStatus.INTERNAL_SERVER_ERROR, f"The server failed on this request: {error!r}."
        )
    return reply.status, [head_of(reply, keep_alive=head.keep_alive), *reply.body]


def _answer(
    engine: Engine, plans: PlanReader, head: Head, body: Raw, max_body_bytes: int
) -> list[Raw]:
    if head.body_encoding is not None:
        body = decompress(body, head.body_encoding, max_body_bytes)
    document, raw = split(body, head.json_bytes)
    is_raw = head.json_bytes == 0
    plan = raw_plan(engine.signature, len(raw)) if is_raw else plans.read(document)
    results = engine.infer(plan.output_names, plan.tensors(raw))
    if head.reply_encoding is None and head.keep_alive:
        key = tuple([array.shape for array in results])
        if key == plan.last_key:
            return on_the_wire(
                plan.last_head,
                [
                    to_raw(each.spec.datatype, array)
                    for each, array in zip(plan.outputs, results, strict=True)
                ],
            )
    return _full_answer(engine, head, plan, results)


def _full_answer(
    engine: Engine, head: Head, plan: InferencePlan, results: list[Array]
) -> list[Raw]:
    document, raw = answer(engine.model_name, MODEL_VERSION, plan, results)
    parts: list[Raw] = [document, *raw]
    encoding = head.reply_encoding
    if encoding is not None:
        if sum(map(len, parts)) >= _COMPRESS_FROM_BYTES:
            parts = [compress(b"".join(parts), encoding)]
        else:
            encoding = None
    reply = Reply(
        status=HTTPStatus.OK,
        content_type=BINARY if raw else JSON,
        body=parts,
        json_bytes=len(document) if raw else None,
        encoding=encoding,
    )
    head_bytes = head_of(reply, keep_alive=head.keep_alive)
    if encoding is None and head.keep_alive and raw and _has_fixed_head(plan):
        plan.last_key = tuple([array.shape for array in results])
        plan.last_head = head_bytes + document
    return on_the_wire(head_bytes, parts)


def _has_fixed_head(plan: InferencePlan) -> bool:
    """Say whether the answer's head follows from the shapes of the outputs alone."""
    return all(each.binary and each.spec.datatype.item_bytes is not None for each in plan.outputs)


def split(body: Raw, json_bytes: int | None) -> tuple[bytes, Raw]:
    """Return a body's JSON and the binary data behind it.

    Binary data comes out aligned: at the start of an object of its own, or, where the body is a
    view, not copied at all. Raises RequestRefusedError where there is less than `json_bytes`.
    """
    if json_bytes is None:
        return bytes(body), b""
    if len(body) < json_bytes:
        raise invalid(
            f"Inference-Header-Content-Length is {json_bytes}, but the body has only "
            f"{len(body)} bytes: send the number of bytes of its JSON."
        )
    return bytes(body[:json_bytes]), body[json_bytes:]
