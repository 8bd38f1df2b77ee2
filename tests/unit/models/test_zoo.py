"""The zoo's reader returns what the index and the files contain."""

import hashlib
import lzma
from collections import Counter
from importlib import resources
from pathlib import Path

import onnx
import pytest

from inferometer_api.spec import zoo_address
from inferometer_api.spec.zoo_address import UnknownModelError
from inferometer_api.spec.zoo_names import ZOO_NAMES
from inferometer_models import zoo
from inferometer_models.light import CHECKSUM_KEY, element_count, weights_of
from inferometer_models.weights import read_draws, size_bytes
from inferometer_models.zoo import DamagedModelError

graphs = Path(str(resources.files("inferometer_models"))) / "graphs"


def test_the_index_has_a_row_for_each_file_and_no_other() -> None:
    """Every packaged graph has its row, every row its graph, and nothing else is packaged."""
    files = [path.relative_to(graphs).as_posix() for path in graphs.rglob("*") if path.is_file()]
    rows = [f"{name}.onnx.xz" for name in zoo.names()]
    assert sorted(files) == sorted([*rows, "index.csv"])
    assert len(rows) == 70


def test_the_index_is_written_as_the_tool_prints_it() -> None:
    """The header of the index names the columns in the order of the printed row."""
    lines = (graphs / "index.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0] == ",".join(zoo.INDEX_COLUMNS)
    assert len(lines) == 1 + len(zoo.names())


def test_every_file_is_as_large_as_its_row_says_and_has_its_checksum() -> None:
    """Sizes are those of the compressed files, checksums those of the decompressed ones."""
    for entry in zoo.entries():
        packed = (graphs / f"{entry.name}.onnx.xz").read_bytes()
        content = lzma.decompress(packed)
        assert (len(packed), len(content)) == (entry.xz_bytes, entry.onnx_bytes), entry.name
        assert hashlib.sha256(content).hexdigest() == entry.sha256, entry.name


def test_every_row_agrees_with_the_graph() -> None:
    """Operators, operator set, names of input and output, and the input's shape are the file's."""
    for entry in zoo.entries():
        model = onnx.load_model_from_string(zoo.read_onnx(entry.name))
        graph = model.graph
        dims = graph.input[0].type.tensor_type.shape.dim
        found = (
            sum(node.op_type not in {"Constant", "ConstantOfShape"} for node in graph.node),
            [opset.version for opset in model.opset_import if opset.domain == ""],
            [value.name for value in graph.input],
            [value.name for value in graph.output],
            tuple(dim.dim_param or dim.dim_value for dim in dims),
        )
        assert found == (
            entry.operators,
            [entry.opset],
            ["input"],
            ["output"],
            entry.input_shape,
        ), entry.name


def test_every_weight_has_its_draw() -> None:
    """The index draws as many numbers for each external tensor as the graph expects at its place.

    The graph names the checksum of its weights, so that its own checksum identifies both.
    """
    for entry in zoo.entries():
        model = onnx.load_model_from_string(zoo.read_onnx(entry.name))
        draws = read_draws(entry.weights)
        offset = 0
        for tensor, draw in zip(weights_of(model), draws, strict=True):
            place = {each.key: each.value for each in tensor.external_data}
            assert place == {
                "location": entry.weights_file,
                "offset": str(offset),
                "length": str(4 * draw.count),
            }, (entry.name, tensor.name)
            assert element_count(tensor) == draw.count, (entry.name, tensor.name)
            offset += draw.padded_bytes
        assert offset == entry.weights_bytes == size_bytes(draws), entry.name
        named = {each.key: each.value for each in model.metadata_props}
        assert named[CHECKSUM_KEY] == entry.weights_sha256, entry.name


@pytest.mark.parametrize("name", ["image_processing/espcn_x3", "classification/squeezenet1_1"])
def test_made_weights_have_the_recorded_checksum(name: str) -> None:
    """The bytes that this machine makes are those that the index names."""
    entry = zoo.entry(name)
    content = b"".join(zoo.weight_chunks(name))
    assert len(content) == entry.weights_bytes
    assert hashlib.sha256(content).hexdigest() == entry.weights_sha256


def test_known_models_have_their_known_number_of_parameters() -> None:
    """What the libraries document for these models is what the index counts."""
    known = {
        "classification/resnet50": 25_557_032,
        "classification/vgg16": 138_357_544,
        "classification/mobilenet_v3_small": 2_542_856,
        "classification/densenet121": 7_978_856,
        "classification/vit_base_patch16_224": 86_567_656,
    }
    assert {name: zoo.entry(name).parameters for name in known} == known
    assert zoo.entry("resnet50").macs == pytest.approx(4.09e9, rel=0.01)


def test_shapes_have_only_the_batch_open() -> None:
    """Input and output have known dimensions but for the batch, the first, where it is open."""
    for entry in zoo.entries():
        for shape in (entry.input_shape, entry.output_shape):
            assert shape[0] in {"batch", 1}, entry.name
            assert all(isinstance(dim, int) and dim > 0 for dim in shape[1:]), entry.name
    fixed = [entry.name for entry in zoo.entries() if entry.input_shape[0] != "batch"]
    assert fixed == ["text/gpt2"]


def test_resnet50_has_the_operators_that_benanza_counts() -> None:
    """The zoo's resnet50 is ResNet50-v1 with its batch normalisations: 175 operators."""
    model = onnx.load_model_from_string(zoo.read_onnx("classification/resnet50"))
    counts = Counter(node.op_type for node in model.graph.node)
    del counts["ConstantOfShape"]
    assert counts == {
        "Conv": 53,
        "BatchNormalization": 53,
        "Relu": 49,
        "Add": 16,
        "MaxPool": 1,
        "GlobalAveragePool": 1,
        "Flatten": 1,
        "Gemm": 1,
    }
    assert counts.total() == zoo.entry("resnet50").operators == 175


def test_names_are_sorted_and_belong_to_the_entries() -> None:
    """Names come sorted, and entries in the same order."""
    assert zoo.names() == tuple(sorted(zoo.names()))
    assert tuple(entry.name for entry in zoo.entries()) == zoo.names()


def test_the_api_knows_every_name() -> None:
    """What has no models, such as the operator, refuses a misspelt name by the same list."""
    assert zoo.names() == ZOO_NAMES


def test_a_bare_name_means_the_same_as_the_full_one() -> None:
    """A model is found by "task/name" and by "name" alone."""
    for name in zoo.names():
        assert zoo.entry(name.rpartition("/")[2]) is zoo.entry(name)
    assert zoo.entry("resnet50").name == "classification/resnet50"
    assert zoo.entry("resnet50").input_shape == ("batch", 3, 224, 224)


@pytest.mark.parametrize(
    ("given", "nearest"),
    [
        ("resnet5", "classification/resnet50"),
        ("clasification/resnet50", "classification/resnet50"),
        ("zoo://text/brt_base", "text/bert_base"),
        ("detection/ResNet50", "classification/resnet50"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(given: str, nearest: str) -> None:
    """The error repeats the name, suggests the nearest model, and says where all are listed."""
    with pytest.raises(UnknownModelError) as caught:
        zoo.entry(given)
    message = str(caught.value)
    assert message.startswith(f'"{given}" is not in the model zoo')
    assert f"The nearest names are {nearest}" in message
    assert "`inferometer models` lists all 70" in message


@pytest.mark.parametrize("given", ["", "zzzz", "../index", "classification/", "index.csv"])
def test_a_name_like_no_other_gets_no_suggestion_and_reads_no_file(given: str) -> None:
    """What resembles no model is refused alike, whatever path it spells."""
    with pytest.raises(UnknownModelError, match="is not in the model zoo"):
        zoo.read_onnx(given)


def test_a_bare_name_that_two_models_share_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """If two tasks have a model of one name, the error requires the full name."""
    monkeypatch.setattr(zoo_address, "ZOO_NAMES", ("depth/unet", "segmentation/unet"))
    with pytest.raises(UnknownModelError, match=r"depth/unet, segmentation/unet; name one"):
        zoo.entry("unet")


@pytest.mark.parametrize(
    ("content", "message_pattern"),
    [
        (lzma.compress(b"another file"), "should have the sha256"),
        (b"not xz at all", "cannot be read"),
        (None, "cannot be read"),
    ],
)
def test_a_damaged_file_is_never_handed_out(
    content: bytes | None, message_pattern: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other bytes, a broken archive and a missing file end in a sentence with the remedy."""
    zoo.entry("vgg11")
    file = tmp_path / "classification" / "vgg11.onnx.xz"
    file.parent.mkdir()
    if content is not None:
        file.write_bytes(content)
    monkeypatch.setattr(zoo, "_graphs", lambda: tmp_path)
    with pytest.raises(DamagedModelError, match=message_pattern) as caught:
        zoo.read_onnx("vgg11")
    assert "install Inferometer again" in str(caught.value)
