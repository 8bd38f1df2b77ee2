"""Reads documents, also those that another version of Inferometer wrote."""

import json
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, get_args

from pydantic import ValidationError

from inferometer_api.document import Document
from inferometer_api.results.result import SCHEMA_VERSION, ResultDocument

_EXPECTED = "Give a result.json that `inferometer run` wrote."
_Read = TypeVar("_Read", bound=Document)


class _Header(Document):
    """The fields of a document that say which version wrote it, whatever they hold."""

    kind: Any = None
    schema_version: Any = None
    inferometer_version: Any = None


class UnreadableDocumentError(ValueError):
    """A text is not a document that this version can read; the message is a sentence."""


@dataclass(frozen=True)  # typing sets an attribute of what an alias makes
class ReadDocument(Generic[_Read]):
    """A document, and what a user should know about how it was read."""

    document: _Read
    notice: str = ""
    """A sentence if the document has a newer minor version than this program, else empty."""


ReadResult = ReadDocument[ResultDocument]


def read_result(text: str | bytes | bytearray, *, source: str) -> ReadResult:
    """Return the result document in a JSON text, by the rule of `read_versioned`.

    The fields that this version does not know are only in `model_extra`, and words that it does not
    know stay as they are. Raises UnreadableDocumentError.
    """
    try:
        return read_versioned(ResultDocument, text, source=source, keep_unknown=True)
    except ValidationError as error:
        raise UnreadableDocumentError(_why_unreadable(source, text, error)) from error


def read_versioned(
    model: type[_Read], text: str | bytes | bytearray, *, source: str, keep_unknown: bool = False
) -> ReadDocument[_Read]:
    """Return the document in a JSON text, with a notice if it has a newer minor version.

    `source` names the text in messages: a path, "The result of default/resnet50". Raises
    UnreadableDocumentError for another major version, and pydantic's ValidationError for what is no
    such document.
    """
    try:
        document = model.read_json(text, keep_unknown=keep_unknown)
    except ValidationError as error:
        if reason := _other_major_in(model, text, source):
            raise UnreadableDocumentError(reason) from error
        raise
    return ReadDocument(document, version_notice(document, source))


def version_notice(document: Document, source: str) -> str:
    """Return a sentence if a document has a newer minor version than this program, else "".

    Raises UnreadableDocumentError if it has a newer major version. Documents without a
    `schemaVersion` have the version of this program.
    """
    known = _known_version(type(document))
    version = getattr(document, "schema_version", known)
    if _parsed(version) <= _parsed(known):
        return ""
    writer = getattr(document, "inferometer_version", None)
    if _parsed(version)[0] > _parsed(known)[0]:
        raise UnreadableDocumentError(_other_major(source, version, known, writer))
    written = "" if writer is None else f", written by Inferometer {writer}"
    return (
        f"{source} has schema version {version}{written}. This program reads version {known} and "
        "ignores newer fields."
    )


def _known_version(model: type[Document]) -> str:
    """Return the newest version of a kind of document that this program knows."""
    field = model.model_fields.get("schema_version")
    return SCHEMA_VERSION if field is None or field.is_required() else str(field.default)


def _parsed(version: str) -> tuple[int, int]:
    major, _, minor = version.partition(".")
    return int(major), int(minor)


def _is_newer_minor(version: str) -> bool:
    minor = version.partition(".")[2]
    return minor.isdecimal() and int(minor) > _parsed(SCHEMA_VERSION)[1]


def _other_major(source: str, version: object, known: str, writer: object) -> str:
    remedy = "a newer Inferometer" if writer is None else f"Inferometer {writer}, which wrote it"
    return (
        f"{source} has schema version {version}, and this program reads version {known}. "
        f"Use {remedy}."
    )


def _other_major_in(model: type[Document], text: str | bytes | bytearray, source: str) -> str:
    """Return that a text is a document of another major version, as a sentence; else ""."""
    field = model.model_fields.get("schema_version")
    try:
        header = _Header.read_json(text)
    except ValidationError:
        return ""
    if field is None or header.kind not in get_args(model.model_fields["kind"].annotation):
        return ""
    known = _known_version(model)
    version = header.schema_version
    if version is None and not field.is_required():
        return ""
    if isinstance(version, str) and version.partition(".")[0] == known.partition(".")[0]:
        return ""
    return _other_major(source, version, known, header.inferometer_version)


def _why_unreadable(source: str, text: str | bytes | bytearray, error: ValidationError) -> str:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return f"{source} is not JSON. {_EXPECTED}"
    if not isinstance(content, dict) or content.get("kind") != "BenchmarkResult":
        return f"{source} is not a result. {_EXPECTED}"
    version, writer = content.get("schemaVersion"), content.get("inferometerVersion")
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    if first["type"] == "finite_number":
        return (
            f"{source} has {json.dumps(first['input'])} at {where}, which is no finite number. "
            "Measure again."
        )
    if _is_newer_minor(str(version)):
        return (
            f"{source} has schema version {version} with a value that this program does not know "
            f"at {where}; use Inferometer {writer}."
        )
    place = f" at {where}" if where else f": {first['msg']}"
    return (
        f"{source} is damaged{place}. It was written by Inferometer {writer}. Restore it from a "
        "copy, or measure again."
    )
