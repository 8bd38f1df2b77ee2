"""Reads result documents, also those that another version of Inferometer wrote."""

import json
from dataclasses import dataclass

from pydantic import ValidationError

from inferometer_api.results.result import SCHEMA_VERSION, ResultDocument

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
        document = ResultDocument.read_json(text, keep_unknown=True)
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
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    if first["type"] == "finite_number":
        return (
            f"{source} has {json.dumps(first['input'])} at {where}, which is no finite number. "
            "Measure again."
        )
    if _is_newer_minor(version):
        return (
            f"{source} has schema version {version} with a value that this program does not know "
            f"at {where}; use Inferometer {writer}."
        )
    place = f" at {where}" if where else f": {first['msg']}"
    return (
        f"{source} is damaged{place}. It was written by Inferometer {writer}. Restore it from a "
        "copy, or measure again."
    )
