"""Reads result documents, also those that another version of Inferometer wrote."""

import json
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

from pydantic import ValidationError
from pydantic_core import CoreSchema, PydanticCustomError, SchemaValidator, core_schema

from inferometer_api.document import READING
from inferometer_api.results.result import SCHEMA_VERSION, ResultDocument

_MOST_ENTRIES = 4096
"""Of one map. The largest has an entry for each Python package."""
_EXPECTED = "Give a result.json that `inferometer run` wrote."


class UnreadableResultError(ValueError):
    """A text is not a result document that this version can read; the message is a sentence."""


@dataclass(frozen=True, slots=True)
class ReadResult:
    """A result document, and what a user should know about how it was read."""

    document: ResultDocument
    notice: str = ""
    """A sentence if the document has a newer minor version than this program, else empty."""


def read_result(text: str | bytes | bytearray, *, source: str) -> ReadResult:
    """Return the result document in a JSON text.

    Documents with a newer minor version can be read: the fields that this version does not know
    are only in `model_extra`, and words that it does not know stay as they are. `source` names the
    text in messages: a path, "The result of default/resnet50". Raises UnreadableResultError.
    """
    try:
        document = _read(text)
    except ValidationError as error:
        raise UnreadableResultError(_why_unreadable(source, text, error)) from error
    version, writer = document.schema_version, document.inferometer_version
    if _parsed(version) <= _parsed(SCHEMA_VERSION):
        return ReadResult(document)
    if _parsed(version)[0] > _parsed(SCHEMA_VERSION)[0]:
        raise UnreadableResultError(_newer_major(source, version, writer))
    notice = (
        f"{source} has schema version {version}, written by Inferometer {writer}. This program "
        f"reads version {SCHEMA_VERSION} and ignores newer fields."
    )
    return ReadResult(document, notice)


def _read(text: str | bytes | bytearray) -> ResultDocument:
    """Return the document, or raise for the first error of each list.

    pydantic takes about 1 KiB for each error that it collects, and a damaged list has millions.
    """
    return cast("ResultDocument", _validator().validate_json(text, extra="allow", context=READING))


@cache
def _validator() -> SchemaValidator:
    ResultDocument.model_rebuild()  # documents are built on first use
    return SchemaValidator(_bounded(ResultDocument.__pydantic_core_schema__))


def _bounded(schema: Any) -> Any:
    """Return a core schema whose errors are bounded: one for each list, and maps are small."""
    if isinstance(schema, list):
        return [_bounded(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: value if key == "metadata" else _bounded(value) for key, value in schema.items()}
    if schema.get("type") == "list":
        return {**found, "fail_fast": True}
    if schema.get("type") == "dict":
        return core_schema.no_info_before_validator_function(
            _check_entries, cast("CoreSchema", found)
        )
    return found


def _check_entries(value: Any) -> Any:
    if isinstance(value, dict) and len(value) > _MOST_ENTRIES:
        raise PydanticCustomError("too_many", "has more than 4096 entries")
    return value


def _parsed(version: str) -> tuple[int, int]:
    major, _, minor = version.partition(".")
    return int(major), int(minor)


def _is_newer_minor(version: str) -> bool:
    minor = version.partition(".")[2]
    return minor.isdecimal() and int(minor) > _parsed(SCHEMA_VERSION)[1]


def _newer_major(source: str, version: object, writer: object) -> str:
    return (
        f"{source} has schema version {version}, and this program reads version {SCHEMA_VERSION}. "
        f"Use Inferometer {writer}, which wrote it."
    )


def _why_unreadable(source: str, text: str | bytes | bytearray, error: ValidationError) -> str:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return f"{source} is not JSON. {_EXPECTED}"
    if not isinstance(content, dict) or content.get("kind") != "BenchmarkResult":
        return f"{source} is not a result. {_EXPECTED}"
    version, writer = content.get("schemaVersion"), content.get("inferometerVersion")
    major = SCHEMA_VERSION.partition(".")[0]
    if not isinstance(version, str) or version.partition(".")[0] != major:
        return _newer_major(source, version, writer)
    where = ".".join(str(part) for part in error.errors()[0]["loc"])
    if _is_newer_minor(version):
        return (
            f"{source} has schema version {version} with a value that this program does not know "
            f"at {where}; use Inferometer {writer}."
        )
    return (
        f"{source} is damaged at {where}. It was written by Inferometer {writer}. Use that "
        "version, or measure again."
    )
