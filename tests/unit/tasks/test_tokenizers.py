"""Texts are padded as their tokenizer states."""

from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from inferometer_api.manifest.input_steps import Tokenize
from inferometer_api.manifest.output_steps import AnswerSpan
from inferometer_tasks.sample import Sample
from inferometer_tasks.steps.text import span, tokenize

WORDS = ("<s>", "<pad>", "</s>", "who", "wrote", "it", "ada", "did")


def a_tokenizer(pad: str = "<pad>") -> Any:
    """Return a tokenizer whose token for padding is number 1, without padding."""
    names = [pad if each == "<pad>" else each for each in WORDS]
    made = Tokenizer(
        models.WordLevel({name: i for i, name in enumerate(names)}, unk_token="<s>")  # noqa: S106
    )
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> $B:1 </s>:1",
        special_tokens=[("<s>", 0), ("</s>", 2)],
    )
    return made


def numbers(tokenizer: Any, part: str = "Ids") -> list[int]:
    """Return the numbers of a text's tokens, padded to 8."""
    step = Tokenize.model_validate({"tokenizer": "t", "maxLength": 8, "part": part})
    found: list[int] = tokenize(step, Sample("1", "who wrote it"), tokenizer).tolist()
    return found


@pytest.mark.parametrize(
    ("direction", "ids", "types"),
    [
        ("right", [0, 3, 4, 5, 2, 1, 1, 1], [0, 0, 0, 0, 0, 3, 3, 3]),
        ("left", [1, 1, 1, 0, 3, 4, 5, 2], [3, 3, 3, 0, 0, 0, 0, 0]),
    ],
)
def test_the_padding_of_a_tokenizer_is_kept(
    direction: str, ids: list[int], types: list[int]
) -> None:
    """Its token, type and side; only the length is that of the step, in each call."""
    tokenizer = a_tokenizer()
    tokenizer.enable_padding(
        pad_id=1, pad_token=WORDS[1], pad_type_id=3, direction=direction, pad_to_multiple_of=5
    )
    absent = Tokenize(tokenizer="t", max_length=8, padding="Absent")
    for _ in range(2):
        assert numbers(tokenizer) == ids
        assert numbers(tokenizer, "TypeIds") == types
        assert numbers(tokenizer, "AttentionMask") == [int(each != 1) for each in ids]
        sample = Sample("1", "who wrote it")
        assert tokenize(absent, sample, tokenizer).tolist() == [0, 3, 4, 5, 2]


@pytest.mark.parametrize(("pad", "number"), [("<pad>", 1), ("[PAD]", 1), ("none", 0)])
def test_a_tokenizer_without_padding_is_padded_by_its_token(pad: str, number: int) -> None:
    """Number 0 stands in if it has none of the usual names."""
    assert numbers(a_tokenizer(pad)) == [0, 3, 4, 5, 2, *[number] * 3]


def test_the_side_at_which_a_text_is_cut_is_kept() -> None:
    """A tokenizer that drops the first tokens keeps the last ones."""
    tokenizer = a_tokenizer()
    tokenizer.enable_truncation(100, direction="left")
    step = Tokenize(tokenizer="t", max_length=4)
    for _ in range(2):
        assert tokenize(step, Sample("1", "who wrote it"), tokenizer).tolist() == [0, 4, 5, 2]


@pytest.mark.parametrize(
    ("text", "context", "ids"),
    [
        ("who did", "ada wrote it who wrote it", [0, 3, 7, 2, 6, 4, 5, 2]),
        ("who wrote it who did it who", "ada did it", [0, 3, 4, 5, 2, 6, 7, 2]),
    ],
    ids=["the context", "the longer text"],
)
def test_of_a_text_and_its_context_one_is_cut(text: str, context: str, ids: list[int]) -> None:
    """The context, as long as some of it is left; a long first text does not fail its sample."""
    step = Tokenize(tokenizer="t", max_length=8)
    assert tokenize(step, Sample("1", text, context=context), a_tokenizer()).tolist() == ids


@pytest.mark.parametrize("direction", ["right", "left"])
def test_an_answer_is_found_on_either_side_of_the_padding(direction: str) -> None:
    """Scores of left padding come before those of the text."""
    tokenizer = a_tokenizer()
    tokenizer.enable_padding(pad_id=1, pad_token=WORDS[1], direction=direction)
    sample = Sample("1", "who wrote it", context="ada did it")
    ids = tokenize(Tokenize(tokenizer="t", max_length=12), sample, tokenizer).tolist()
    scores = np.array([each == WORDS.index("did") for each in ids], float)
    step = AnswerSpan(end="e", tokenizer="t", max_length=12)
    assert span(step, scores, scores, sample, tokenizer) == "did"
