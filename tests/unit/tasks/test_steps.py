"""Steps are pure functions whose results other programs agree with."""

import io
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from inferometer_api.manifest.input_steps import (
    Cast,
    Crop,
    Decode,
    FileBytes,
    Layout,
    Normalize,
    Resize,
    Tokenize,
)
from inferometer_api.manifest.model_manifest import ModelManifest
from inferometer_api.manifest.output_steps import AnswerSpan, ArgmaxMask, Boxes, Ctc, TopK
from inferometer_tasks.assets import Assets
from inferometer_tasks.errors import SampleError, TaskRefusedError
from inferometer_tasks.sample import Sample
from inferometer_tasks.steps import boxes, classes, image, tensor, text

SIDES = st.integers(1, 40)


def pixels(height: int, width: int, channels: int = 3, seed: int = 1) -> np.ndarray[Any, Any]:
    """Return an image of random pixels."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, channels), np.uint8)


def packed(array: np.ndarray[Any, Any], name: str, **options: Any) -> bytes:
    """Return the file of an image."""
    file = io.BytesIO()
    Image.fromarray(array).save(file, name, **options)
    return file.getvalue()


@given(height=SIDES, width=SIDES)
def test_a_lossless_image_is_decoded_to_its_pixels(height: int, width: int) -> None:
    """PNG comes back exactly; BGR is the reverse of RGB; gray has one channel."""
    original = pixels(height, width)
    file = packed(original, "PNG")
    rgb = image.decode(Decode(), file)
    assert (rgb == original).all()
    assert (image.decode(Decode(color_mode="BGR"), file) == original[:, :, ::-1]).all()
    gray = image.decode(Decode(color_mode="Gray"), file)[:, :, 0].astype(float)
    assert np.abs(gray - original @ [0.299, 0.587, 0.114]).max() <= 1


@pytest.mark.parametrize("color", ["RGB", "BGR", "Gray"])
@pytest.mark.parametrize(("form", "order"), [("PNG", "<u2"), ("TIFF", "<u2"), ("TIFF", ">u2")])
def test_of_16_bits_the_upper_8_remain(color: str, form: str, order: str) -> None:
    """Gray and colours alike; a value above 255 is not white."""
    values = [0, 255, 256, 30_000, 65_535]
    file = packed(np.array([values]).astype(order), form)
    found = image.decode(Decode.model_validate({"colorMode": color}), file)
    assert found.dtype == np.uint8
    for channel in range(found.shape[2]):
        assert found[0, :, channel].tolist() == [each // 256 for each in values]


@pytest.mark.parametrize(("dtype", "kind"), [(np.float32, "floats"), (np.int32, "32 bits")])
def test_an_image_without_a_known_white_is_refused(dtype: Any, kind: str) -> None:
    """Floats from 0 to 1 were black, and whole numbers above 255 white."""
    file = packed(np.array([[0, 1]], dtype), "TIFF")
    with pytest.raises(SampleError, match=rf"{kind}.* black and white are not known"):
        image.decode(Decode(), file)


def test_alpha_and_rotation_do_not_count() -> None:
    """Pixels are those of the file, as the page says."""
    transparent = np.array([[[10, 20, 30, 0], [40, 50, 60, 255]]], np.uint8)
    assert image.decode(Decode(), packed(transparent, "PNG")).tolist() == [
        [[10, 20, 30], [40, 50, 60]]
    ]
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees
    flat = packed(np.zeros((8, 16, 3), np.uint8), "JPEG", exif=exif)
    for library in ("Pillow", "SimpleJpeg"):
        step = Decode.model_validate({"library": library})
        assert image.decode(step, flat).shape == (8, 16, 3)


@pytest.mark.parametrize("color", ["RGB", "BGR", "Gray"])
def test_both_jpeg_libraries_agree_up_to_rounding(color: str) -> None:
    """libjpeg-turbo by two ways differs by little, and its fast mode by more."""
    smooth = np.add.outer(np.arange(64) * 2, np.arange(48))[:, :, None] + np.array([0, 30, 60])
    file = packed(np.clip(smooth, 0, 255).astype(np.uint8), "JPEG", quality=90)
    found = {
        library: image.decode(
            Decode.model_validate({"library": library, "colorMode": color}), file
        ).astype(int)
        for library in ("Pillow", "SimpleJpeg", "SimpleJpegFast")
    }
    assert np.abs(found["Pillow"] - found["SimpleJpeg"]).mean() < 1
    assert found["Pillow"].shape == found["SimpleJpegFast"].shape


@pytest.mark.parametrize("library", ["Pillow", "SimpleJpeg"])
@pytest.mark.parametrize("content", [b"", b"no image", packed(pixels(8, 8), "JPEG")[:40]])
def test_a_broken_image_is_the_fault_of_its_sample(library: str, content: bytes) -> None:
    """Only this sample fails."""
    with pytest.raises(SampleError, match="decoded"):
        image.decode(Decode.model_validate({"library": library}), content)


def test_a_file_that_is_no_image_is_described_by_itself() -> None:
    """Not by the address of an object in memory."""
    with pytest.raises(SampleError) as refused:
        image.decode(Decode(), b"no image")
    assert str(refused.value) == (
        "The image cannot be decoded: its 8 bytes have no format that Pillow knows."
    )


def test_an_image_that_would_fill_the_memory_is_not_decoded() -> None:
    """A small file may claim a huge size."""
    header = packed(pixels(1, 1), "PNG")
    huge = header[:16] + (60_000).to_bytes(4) + (60_000).to_bytes(4) + header[24:]
    with pytest.raises(SampleError):
        image.decode(Decode(), huge)


@given(height=SIDES, width=SIDES, tall=SIDES, wide=SIDES)
def test_resizing_keeps_a_constant_image_and_gives_the_size(
    height: int, width: int, tall: int, wide: int
) -> None:
    """Every method interpolates: a constant stays constant."""
    constant = np.full((height, width, 3), 77, np.uint8)
    for method in ("Nearest", "Box", "Bilinear", "BilinearNoAntialias", "Bicubic", "Lanczos"):
        step = Resize.model_validate({"height": tall, "width": wide, "method": method})
        found = image.resize(step, constant)
        assert found.shape == (tall, wide, 3)
        assert (found == 77).all()


@given(height=SIDES, width=SIDES, tall=SIDES, wide=SIDES)
def test_fit_keeps_the_aspect_ratio(height: int, width: int, tall: int, wide: int) -> None:
    """Cover reaches both sides, Pad stays within and fills the rest, one side follows the other."""
    covered = image.target_size(Resize(height=tall, width=wide, fit="Cover"), height, width)
    assert covered[0] >= tall - 0.5
    assert covered[1] >= wide - 0.5
    padded = Resize(height=tall, width=wide, fit="Pad", pad_value=9)
    rows, columns = image.target_size(padded, height, width)
    assert (rows <= tall, columns <= wide) == (True, True)
    assert rows == tall or columns == wide
    found = image.resize(padded, np.full((height, width, 3), 5, np.uint8))
    assert found.shape == (tall, wide, 3)
    assert (found[:rows, :columns] == 5).all()
    assert (found == 9).sum() == 3 * (tall * wide - rows * columns)
    assert image.target_size(Resize(height=2 * height), height, width) == (2 * height, 2 * width)


@settings(max_examples=30)
@given(height=SIDES, width=SIDES, tall=SIDES, wide=SIDES)
def test_bilinear_without_antialiasing_is_the_four_neighbours(
    height: int, width: int, tall: int, wide: int
) -> None:
    """A loop over the pixels computes the same."""
    source = pixels(height, width, 1)
    step = Resize(height=tall, width=wide, method="BilinearNoAntialias")
    found = image.resize(step, source)
    for row in range(tall):
        for column in range(wide):
            y = min(max((row + 0.5) * height / tall - 0.5, 0), height - 1)
            x = min(max((column + 0.5) * width / wide - 0.5, 0), width - 1)
            top, left = int(y), int(x)
            bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
            value = (
                source[top, left, 0] * (1 - y + top) * (1 - x + left)
                + source[top, right, 0] * (1 - y + top) * (x - left)
                + source[bottom, left, 0] * (y - top) * (1 - x + left)
                + source[bottom, right, 0] * (y - top) * (x - left)
            )
            assert abs(found[row, column, 0] - value) <= 0.5 + 1e-6


@given(height=SIDES, width=SIDES, tall=SIDES, wide=SIDES)
def test_cropping_takes_the_centre(height: int, width: int, tall: int, wide: int) -> None:
    """As many pixels go at both sides, one more at the end; a smaller image is refused."""
    source = pixels(height, width)
    step = Crop(height=tall, width=wide)
    if tall > height or wide > width:
        with pytest.raises(SampleError, match="cut out"):
            image.crop(step, source)
        return
    top, left = (height - tall) // 2, (width - wide) // 2
    assert (image.crop(step, source) == source[top : top + tall, left : left + wide]).all()


@given(
    divide=st.floats(0.5, 300),
    mean=st.lists(st.floats(-1, 1), min_size=3, max_size=3),
    std=st.lists(st.floats(0.1, 2), min_size=3, max_size=3),
)
def test_normalizing_can_be_undone(divide: float, mean: list[float], std: list[float]) -> None:
    """(x / divideBy - mean) / std, by channel; layout moves the channels and nothing else."""
    source = pixels(5, 4)
    step = Normalize(divide_by=divide, mean=mean, std=std)
    found = tensor.normalize(step, source)
    assert found.dtype == np.float32
    back = (found * np.array(std) + np.array(mean)) * divide
    assert np.allclose(back, source, atol=1e-2)
    moved = tensor.layout(Layout(order="CHW"), found)
    assert moved.shape == (3, 5, 4)
    assert (moved.transpose(1, 2, 0) == found).all()


def test_channels_that_do_not_fit_are_named() -> None:
    """Three means for a gray image are a mistake of the manifest."""
    with pytest.raises(SampleError, match="3 values of mean, but the image has 1 channels"):
        tensor.normalize(Normalize(mean=[0.1, 0.2, 0.3]), pixels(2, 2, 1))


@pytest.mark.parametrize("datatype", [*tensor.DTYPES, "BYTES"])
def test_casting_gives_the_datatype(datatype: str) -> None:
    """Small whole numbers survive every numeric type."""
    found = tensor.cast(Cast.model_validate({"datatype": datatype}), np.array([0, 1]))
    assert [int(each) for each in found] == [0, 1]


@given(
    content=st.binary(max_size=80),
    begin=st.integers(0, 30),
    end=st.integers(0, 30),
)
def test_bytes_of_a_file_stand_at_both_ends(content: bytes, begin: int, end: int) -> None:
    """The begin is padded at its end, and the end at its begin; blanks are stripped."""
    step = FileBytes(begin=begin, end=end, block=40, padding=256)
    found = tensor.file_bytes(step, content).tolist()
    first = list(content[:40].lstrip()[:begin])
    last = list(content[-40:].rstrip())
    last = last[-end:] if end else []
    assert found[:begin] == first + [256] * (begin - len(first))
    assert found[begin:] == [256] * (end - len(last)) + last


@given(st.lists(st.floats(-50, 50), min_size=1, max_size=12))
def test_softmax_and_top_k_order_the_classes(scores: list[float]) -> None:
    """Probabilities sum to 1 and keep the order; of equal ones the first comes first."""
    probabilities = classes.softmax(np.array(scores, np.float32))
    assert probabilities.sum() == pytest.approx(1)
    found = classes.top_k(TopK(k=3), np.array(scores), None)
    wanted = sorted(range(len(scores)), key=lambda each: (-scores[each], each))[:3]
    assert [each.index for each in found.best] == wanted


def test_labels_that_do_not_fit_the_model_are_refused() -> None:
    """A label file with another number of lines belongs to another model."""
    with pytest.raises(TaskRefusedError, match="2 labels, but the model distinguishes 3 classes"):
        classes.top_k(TopK(labels="labels.txt"), np.zeros(3), ["cat", "dog"])


@given(st.lists(st.integers(0, 3), max_size=20))
def test_ctc_drops_repeats_and_blanks(path: list[int]) -> None:
    """The text of the best path is what a loop over it reads; both places of the blank agree."""
    scores = np.eye(4)[path].reshape(-1, 4)
    wanted, before = "", 0
    for each in path:
        if each not in {0, before}:
            wanted += "abc"[each - 1]
        before = each
    step = Ctc(vocabulary="v", blank="First", space=False)
    assert classes.ctc(step, scores, "abc") == wanted
    last = Ctc(vocabulary="v", blank="Last", space=False)
    assert classes.ctc(last, np.roll(scores, -1, axis=1), "abc") == wanted


def test_a_vocabulary_that_does_not_fit_is_refused() -> None:
    """The number of characters is the number of classes without the blank."""
    with pytest.raises(TaskRefusedError, match="4 characters with the blank"):
        classes.ctc(Ctc(vocabulary="v"), np.zeros((2, 4)), "abc")


def test_a_mask_has_the_best_class_of_each_pixel() -> None:
    """The axis of the classes goes."""
    scores = np.random.default_rng(3).random((5, 4, 6))
    found = classes.argmax_mask(ArgmaxMask(axis=0), scores).classes
    assert found.shape == (4, 6)
    assert all(
        scores[found[y, x], y, x] == scores[:, y, x].max() for y in range(4) for x in range(6)
    )


@pytest.mark.parametrize("datatype", [np.int64, np.uint8, np.float32, bool])
def test_a_mask_of_the_model_is_taken_as_it_is(datatype: Any) -> None:
    """Whatever the type of its whole numbers."""
    found = classes.mask(np.array([[0, 1], [1, 0]], datatype)).classes
    assert found.dtype == np.int64
    assert found.tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize("score", [0.5, np.nan, np.inf, 1e30])
def test_scores_are_no_mask(score: float) -> None:
    """They would become classes without a word."""
    with pytest.raises(SampleError, match="use argmaxMask"):
        classes.mask(np.array([[1, score]]))


@st.composite
def some_boxes(draw: st.DrawFn) -> np.ndarray[Any, Any]:
    """Draw boxes as left, top, right, bottom."""
    corners = draw(st.lists(st.tuples(*[st.integers(0, 20)] * 4), min_size=1, max_size=12))
    rows = [(min(a, c), min(b, d), max(a, c) + 1, max(b, d) + 1) for a, b, c, d in corners]
    return np.array(rows, float)


def iou(one: Any, other: Any) -> float:
    """Return the overlap of two boxes on a grid of pixels, counted."""
    cells = [
        {(x, y) for x in range(int(b[0]), int(b[2])) for y in range(int(b[1]), int(b[3]))}
        for b in (one, other)
    ]
    return len(cells[0] & cells[1]) / len(cells[0] | cells[1])


@settings(max_examples=50)
@given(corners=some_boxes(), threshold=st.sampled_from([0.0, 0.3, 0.5, 0.9]))
def test_suppression_keeps_what_no_better_box_covers(
    corners: np.ndarray[Any, Any], threshold: float
) -> None:
    """A loop over pixels finds the same boxes; boxes of another class do not count."""
    scores = np.random.default_rng(len(corners)).permutation(len(corners)) / len(corners)
    kinds = np.arange(len(corners)) % 2
    wanted: list[int] = []
    for each in sorted(range(len(corners)), key=lambda i: -scores[i]):
        alike = [k for k in wanted if kinds[k] == kinds[each]]
        if all(iou(corners[each], corners[k]) <= threshold for k in alike):
            wanted.append(each)
    assert boxes.suppressed(corners, scores, kinds, threshold).tolist() == wanted


@pytest.mark.parametrize(
    ("form", "row"),
    [
        ("XYXY", (2, 4, 8, 10)),
        ("YXYX", (4, 2, 10, 8)),
        ("XYWH", (2, 4, 6, 6)),
        ("CXCYWH", (5, 7, 6, 6)),
    ],
)
def test_boxes_come_back_in_pixels_of_the_image(form: str, row: tuple[float, ...]) -> None:
    """All formats mean the same box; padding does not move it, and scaling is undone."""
    step = Boxes.model_validate({"format": form, "scoreThreshold": 0.5})
    scale = boxes.Scale(image=(40, 20), scaled=(20, 10), shape=(20, 20))
    rows = np.array([(*row, 0.1, 0.9), (*row, 0.2, 0.3)])
    found = boxes.detections(step, rows, None, None, scale)
    assert found.boxes.tolist() == [[4, 8, 16, 20]]
    assert (found.classes.tolist(), found.scores.tolist()) == ([1], [0.9])


def test_normalized_boxes_count_from_the_padded_input() -> None:
    """A half of the input's height is a half of the image, its padding included."""
    scale = boxes.Scale(image=(40, 20), scaled=(20, 10), shape=(20, 20))
    corners = np.array([[0, 0, 0.5, 0.5]])
    step = Boxes(normalized=True, scores="s", classes="c")
    found = boxes.detections(step, corners, np.array([[0.7]]), np.array([[3]]), scale)
    assert found.boxes.tolist() == [[0, 0, 20, 20]]
    assert found.classes.tolist() == [3]


@dataclass
class Words:
    """A tokenizer that splits at blanks: a small oracle of the library's interface."""

    def tokenizer(self) -> Any:
        """Return one of Hugging Face's library, made here."""
        from tokenizers import Tokenizer, models, pre_tokenizers, processors  # noqa: PLC0415

        names = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "who", "wrote", "it", "ada", "did", "then"]
        made = Tokenizer(
            models.WordLevel({name: i for i, name in enumerate(names)}, unk_token="[UNK]")  # noqa: S106
        )
        made.pre_tokenizer = pre_tokenizers.Whitespace()
        made.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]",
            pair="[CLS] $A [SEP] $B:1 [SEP]:1",
            special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
        )
        return made


def test_texts_become_numbers_of_a_fixed_length() -> None:
    """Ids, mask and types have maxLength entries; a longer text is cut."""
    words = Words().tokenizer()
    sample = Sample("1", "who wrote it")
    ids, mask = (
        text.tokenize(
            Tokenize.model_validate({"tokenizer": "t", "maxLength": 7, "part": part}),
            sample,
            words,
        ).tolist()
        for part in ("Ids", "AttentionMask")
    )
    assert ids == [1, 4, 5, 6, 2, 0, 0]
    assert mask == [1, 1, 1, 1, 1, 0, 0]
    short = Tokenize(tokenizer="t", max_length=3, padding="Absent")
    assert text.tokenize(short, sample, words).tolist() == [1, 4, 2]


def test_each_thread_has_a_tokenizer_of_its_own(tmp_path: Path) -> None:
    """Its settings are those of the call under way: a shared one would mix those of two threads."""
    (tmp_path / "tokenizer.json").write_text(Words().tokenizer().to_str())
    manifest = ModelManifest.model_construct(assets=[])  # type: ignore[call-arg]  # the rest is unread
    assets = Assets(manifest, tmp_path)
    own = assets.tokenizer("tokenizer.json")
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(assets.tokenizer, "tokenizer.json").result()
    assert own is assets.tokenizer("tokenizer.json")
    assert own is not other


def test_an_answer_is_cut_out_of_the_context() -> None:
    """The best stretch within the context counts, as a search over all stretches finds it."""
    words = Words().tokenizer()
    sample = Sample("1", "who wrote it", context="then ada did it")
    random = np.random.default_rng(5)
    step = AnswerSpan(end="ends", tokenizer="t", max_length=32, max_answer_tokens=2)
    for _ in range(20):
        starts, ends = random.random((2, 10))
        best = max(
            ((i, j) for i in range(5, 9) for j in range(i, min(i + 2, 9))),
            key=lambda span: starts[span[0]] + ends[span[1]],
        )
        wanted = " ".join(["then", "ada", "did", "it"][best[0] - 5 : best[1] - 4])
        assert text.span(step, starts, ends, sample, words) == wanted
