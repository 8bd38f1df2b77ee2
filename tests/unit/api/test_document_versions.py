"""Every kind of document with a schemaVersion is read by one rule of versions."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from inferometer_api.document import Document
from inferometer_api.layers.bricks import BrickSuite
from inferometer_api.results.reading import UnreadableDocumentError, read_versioned
from inferometer_api.results.result import ResultDocument
from support.layer_graphs import brick_timings, layer_graph, timing
from support.node_documents import a_node_document
from support.results import a_result

DOCUMENTS: tuple[Document, ...] = (
    a_result(),
    a_node_document(),
    BrickSuite(engine="e", engine_version="1", granularity=1, layers={}, bricks={}),
    brick_timings({"a": timing(1_000)}),
    layer_graph(("a", [0], [1])),
)
each_kind = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda each: type(each).__name__)


def _changed(document: Document, **changes: Any) -> str:
    """Return the text of a document with other fields; a field that is None is absent."""
    content = json.loads(document.model_dump_json(exclude_none=True)) | changes
    return json.dumps({name: each for name, each in content.items() if each is not None})


def _version(document: Document) -> tuple[int, int]:
    major, minor = document.model_dump()["schemaVersion"].split(".")
    return int(major), int(minor)


@each_kind
def test_a_document_of_this_version_needs_no_notice(document: Document) -> None:
    """It is read as it was written."""
    read = read_versioned(type(document), _changed(document), source="it.json")
    assert read.document.model_dump() == document.model_dump()
    assert read.notice == ""


@each_kind
def test_a_newer_minor_version_is_read_with_a_notice(document: Document) -> None:
    """The notice names the text and both versions, and the writer if the document does."""
    major, minor = _version(document)
    text = _changed(document, schemaVersion=f"{major}.{minor + 1}", fieldOfTheFuture=[1])
    read = read_versioned(type(document), text, source="it.json")
    assert read.notice.startswith(f"it.json has schema version {major}.{minor + 1}")
    assert f"This program reads version {major}.{minor} and ignores newer fields." in read.notice
    has_writer = "inferometer_version" in type(document).model_fields
    assert ("written by Inferometer" in read.notice) == has_writer


@each_kind
@pytest.mark.parametrize("lacking", [(), ("engine", "machine", "run", "model")])
def test_a_newer_major_version_is_refused(document: Document, lacking: tuple[str, ...]) -> None:
    """Also if this program finds none of the fields that it knows."""
    major, minor = _version(document)
    text = _changed(document, schemaVersion=f"{major + 1}.0", **dict.fromkeys(lacking))
    words = (
        rf"^it\.json has schema version {major + 1}\.0, and this program reads version "
        rf"{major}\.{minor}\. Use (a newer Inferometer|Inferometer \S+, which wrote it)\.$"
    )
    with pytest.raises(UnreadableDocumentError, match=words):
        read_versioned(type(document), text, source="it.json")


@pytest.mark.parametrize(
    "document", [each for each in DOCUMENTS if not isinstance(each, ResultDocument)]
)
def test_a_document_of_another_kind_is_not_refused_for_its_version(document: Document) -> None:
    """Versions of different kinds cannot be compared."""
    text = _changed(document, kind="Another", schemaVersion="9.0")
    with pytest.raises(ValidationError):
        read_versioned(type(document), text, source="it.json")
    with pytest.raises(ValidationError):
        read_versioned(type(document), "no JSON", source="it.json")
