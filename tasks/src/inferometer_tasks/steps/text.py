"""Steps on texts: tokens before the model, the answer's span after it."""

from contextlib import suppress
from typing import Any

import numpy as np

from inferometer_api.manifest.input_steps import Tokenize
from inferometer_api.manifest.output_steps import AnswerSpan
from inferometer_tasks.errors import SampleError, TaskRefusedError
from inferometer_tasks.sample import Array, Sample

_PARTS = {"Ids": "ids", "AttentionMask": "attention_mask", "TypeIds": "type_ids"}
_PAD_TOKENS = ("[PAD]", "<pad>", "<|pad|>")
"""Usual names of the token for padding: many a tokenizer.json has the token, but no padding."""


def tokenize(step: Tokenize, sample: Sample, tokenizer: Any) -> Array:
    """Return one kind of numbers of a text's tokens, as int64.

    Raises SampleError, and TaskRefusedError if `step` leaves no room for a text.
    """
    length = step.max_length if step.padding == "MaxLength" else None
    encoded = _encode(sample, tokenizer, step.max_length, length)
    return np.asarray(getattr(encoded, _PARTS[step.part]), np.int64)


def _encode(sample: Sample, tokenizer: Any, most: int, length: int | None) -> Any:
    if not isinstance(sample.content, str):
        raise SampleError("tokenize needs a text, but the sample has none.")
    own_tokens = tokenizer.num_special_tokens_to_add(sample.context is not None)
    if most <= own_tokens:
        raise TaskRefusedError(
            f"maxLength is {most}, but the tokenizer adds {own_tokens} tokens of its own to "
            f"{'a text' if sample.context is None else 'a text with a context'}: raise maxLength."
        )
    # A tokenizer keeps these settings; each call sets what it needs, and gives its padding back.
    own = tokenizer.padding
    if length is None:
        tokenizer.no_padding()
    else:
        padding = _padding(tokenizer)
        tokenizer.enable_padding(**padding | {"length": length, "pad_to_multiple_of": None})
    try:
        return _cut_to(most, sample, tokenizer)
    except Exception as error:  # the library raises nothing narrower
        raise SampleError(f"The text cannot be split into tokens: {error}.") from error
    finally:
        if own is None:
            tokenizer.no_padding()
        else:
            tokenizer.enable_padding(**own)


def _cut_to(most: int, sample: Sample, tokenizer: Any) -> Any:
    """Return the tokens of a text and its context, of which the context is cut.

    The longer of both is cut where a text alone leaves no room for its context.
    """
    direction = (tokenizer.truncation or {}).get("direction", "right")
    texts = [each for each in (sample.content, sample.context) if each is not None]
    if sample.context:
        tokenizer.enable_truncation(most, strategy="only_second", direction=direction)
        with suppress(Exception):  # the context is too short for that, among others
            return tokenizer.encode(*texts)
    tokenizer.enable_truncation(most, strategy="longest_first", direction=direction)
    return tokenizer.encode(*texts)


def _padding(tokenizer: Any) -> dict[str, Any]:
    """Return a tokenizer's own padding; with none, that of its token for padding."""
    if tokenizer.padding is not None:
        own: dict[str, Any] = tokenizer.padding
        return own
    for token in _PAD_TOKENS:
        number = tokenizer.token_to_id(token)
        if number is not None:
            return {"pad_id": number, "pad_token": token}
    return {}


def span(step: AnswerSpan, starts: Array, ends: Array, sample: Sample, tokenizer: Any) -> str:
    """Return the stretch of the context with the highest sum of both scores."""
    if sample.context is None:
        raise SampleError("span needs a context, but the sample has none.")
    encoded = _encode(sample, tokenizer, step.max_length, None)
    if (tokenizer.padding or {}).get("direction") == "left":
        # The model's scores begin with those of the padding.
        starts, ends = starts[-len(encoded.ids) :], ends[-len(encoded.ids) :]
    count = min(len(encoded.ids), len(starts), len(ends))
    inside = np.array([each == 1 for each in encoded.sequence_ids[:count]])
    firsts = np.where(inside, starts[:count].astype(np.float64), -np.inf)
    lasts = np.where(inside, ends[:count].astype(np.float64), -np.inf)
    best, found = -np.inf, (0, 0)
    for first in np.flatnonzero(inside):
        stretch = lasts[first : first + step.max_answer_tokens]
        last = int(np.argmax(stretch))
        if firsts[first] + stretch[last] > best:
            best, found = firsts[first] + stretch[last], (int(first), int(first) + last)
    if best == -np.inf:
        return ""
    return sample.context[encoded.offsets[found[0]][0] : encoded.offsets[found[1]][1]]
