"""A damaged result document costs its reader little, however large it is."""

import json

import pytest
from pydantic import ValidationError

from inferometer_api.results.reading import UnreadableDocumentError, read_result
from support.results import a_result

_WHOLE = json.loads(a_result().model_dump_json(exclude_none=True))


@pytest.mark.parametrize(
    ("where", "damage"),
    [
        ("scenarios", [{}] * 20_000),
        ("scenarios", [None] * 20_000),
        ("environment", {**_WHOLE["environment"], "images": dict.fromkeys(map(str, range(5000)))}),
    ],
)
def test_a_damaged_document_has_few_errors(where: str, damage: object) -> None:
    """The errors of a list of 8 MiB took 15 GB, which ended the operator."""
    with pytest.raises(UnreadableDocumentError, match=f"is damaged at {where}") as caught:
        read_result(json.dumps(_WHOLE | {where: damage}), source="The result")
    cause = caught.value.__cause__
    assert isinstance(cause, ValidationError)
    assert cause.error_count() <= 20


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000])
def test_a_deeply_nested_text_is_no_result(text: str) -> None:
    """The reader's stack is as bounded as its memory."""
    with pytest.raises(UnreadableDocumentError, match="is not JSON"):
        read_result(text, source="The result")


def test_a_text_with_half_a_character_is_damaged() -> None:
    """It has no place in the document, so the message says what is wrong with the whole."""
    text = json.dumps(_WHOLE | {"labels": {"a": "HALF"}}).replace("HALF", "\\ud800")
    words = r"The result is damaged: Invalid JSON.* Restore it from a copy, or measure again\."
    with pytest.raises(UnreadableDocumentError, match=words):
        read_result(text, source="The result")
