"""Data sets, texts and scores as other programs write them."""

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers

from inferometer_api.manifest.input_steps import Tokenize
from inferometer_tasks.datasets.archive import unpack
from inferometer_tasks.datasets.dataset import Dataset, open_dataset
from inferometer_tasks.errors import TaskRefusedError
from inferometer_tasks.sample import Sample
from inferometer_tasks.steps import classes
from inferometer_tasks.steps.text import tokenize

MANIFEST = """\
apiVersion: inferometer.dev/v1alpha1
kind: DatasetManifest
name: words
version: 1.2.0
license: CC0-1.0
samples: samples.jsonl
"""


def listed(tmp_path: Path, *rows: dict[str, Any]) -> Dataset:
    """Open a data set of these rows."""
    path = tmp_path / "samples.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in rows))
    return open_dataset("file:samples.jsonl", path, tmp_path / "unpacked")


def test_null_columns_are_absent(tmp_path: Path) -> None:
    """A writer of tables gives every row every column."""
    found = listed(
        tmp_path,
        {"id": "a", "file": None, "text": "who?", "values": None, "context": None, "label": None},
        {"id": None, "file": None, "text": None, "values": [1, 2], "label": 1},
    )
    text, numbers = found.read()
    assert text == Sample("a", "who?")
    assert isinstance(numbers, Sample)
    assert (numbers.id, numbers.label) == ("2", 1)


def test_a_row_with_null_alone_has_no_content(tmp_path: Path) -> None:
    """It is not the text "None"."""
    with pytest.raises(TaskRefusedError, match=r"Line 1 of .* null counts as absent"):
        listed(tmp_path, {"id": "a", "text": None})


def test_two_samples_with_one_id_are_refused(tmp_path: Path) -> None:
    """Expected outputs and failures name a sample by its id."""
    rows = [{"id": f"s{number}", "text": "a"} for number in range(1000)]
    assert listed(tmp_path, *rows).count == 1000
    with pytest.raises(TaskRefusedError, match=r"Lines 8 and 901 of .* the same id 's7'"):
        listed(tmp_path, *rows[:900], {"id": "s7", "text": "b"}, *rows[901:])


@pytest.mark.parametrize("place", [0, 1, 3])
def test_a_number_that_stands_for_an_id_is_one(place: int, tmp_path: Path) -> None:
    """A row without an id has its number, wherever another row states it."""
    rows: list[dict[str, Any]] = [{"text": "a"}, {"text": "b"}, {"text": "c"}, {"text": "d"}]
    assert listed(tmp_path, *rows).count == 4
    rows[place]["id"] = str(place + 1)
    assert listed(tmp_path, *rows, {"id": "x", "text": "e"}).count == 5
    rows[place]["id"] = 3
    first, second = sorted((place + 1, 3))
    with pytest.raises(TaskRefusedError, match=f"Lines {first} and {second} of .* same id '3'"):
        listed(tmp_path, *rows)


def test_a_key_that_is_nearly_a_column_is_refused(tmp_path: Path) -> None:
    """Its values would be ignored; other keys may be there."""
    assert listed(tmp_path, {"text": "a", "url": "b", "Lang": "en"}).count == 1
    with pytest.raises(TaskRefusedError, match="the column 'Label': write 'label'"):
        listed(tmp_path, {"text": "a", "Label": 1})


def test_the_folder_that_macos_adds_is_no_data_set(tmp_path: Path) -> None:
    """The manifest is in the other one."""
    path = tmp_path / "words.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("words/dataset.yaml", MANIFEST)
        archive.writestr("words/samples.jsonl", '{"text": "a"}\n')
        archive.writestr("__MACOSX/words/._dataset.yaml", b"\0\5\26\7")
    (tmp_path / "unpacked").mkdir()
    assert open_dataset("file:words.zip", path, tmp_path / "unpacked").name == "words"


def test_a_name_may_have_a_colon(tmp_path: Path) -> None:
    """Only a drive at its begin, as in paths of Windows, leaves the folder."""
    path, folder = tmp_path / "words.zip", tmp_path / "unpacked"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("2026-03-12T14:03:31.txt", "a")
    folder.mkdir()
    unpack(path, folder)
    assert [each.name for each in folder.iterdir()] == ["2026-03-12T14:03:31.txt"]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("c:evil.txt", "a")
    with pytest.raises(TaskRefusedError, match="leaves its folder"):
        unpack(path, folder)


@pytest.mark.parametrize(("most", "context", "own"), [(1, None, 2), (2, "ada did", 3)])
def test_a_length_without_room_for_a_text_is_refused(
    most: int, context: str | None, own: int
) -> None:
    """The library would return more tokens than maxLength."""
    made = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({"<s>": 0, "</s>": 1, "who": 2, "ada": 3}, unk_token="<s>")  # noqa: S106
    )
    made.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> $B:1 </s>:1",
        special_tokens=[("<s>", 0), ("</s>", 1)],
    )
    sample = Sample("1", "who", context=context)
    with pytest.raises(TaskRefusedError, match=f"maxLength is {most}, .* adds {own} tokens"):
        tokenize(Tokenize(tokenizer="t", max_length=most), sample, made)
    room = Tokenize(tokenizer="t", max_length=own + 2)
    assert len(tokenize(room, sample, made)) == own + 2


@pytest.mark.parametrize("shape", [(3,), (3, 1, 1), (1, 3), (2, 3), (2, 3, 1)])
def test_probabilities_are_those_of_the_classes(shape: tuple[int, ...]) -> None:
    """Axes of one value behind them are no classes; positions before them stay apart."""
    scores = np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)
    found = classes.softmax(scores)
    powers = np.exp(np.arange(3.0))
    wanted = np.broadcast_to(powers / powers.sum(), (scores.size // 3, 3))
    assert found.shape == shape
    assert np.allclose(found.reshape(-1, 3), wanted)
