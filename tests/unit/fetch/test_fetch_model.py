"""Tests of fetching models: they are bounded and checked before use."""

import hashlib
from pathlib import Path

import pytest
from onnx import TensorProto, helper

from inferometer_fetch.model import fetch_model
from inferometer_models.errors import ModelRefusedError
from inferometer_models.graph_file import read_graph
from support import onnx_models


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Return a small model in a folder of its own."""
    return onnx_models.save(onnx_models.identity(), tmp_path / "copy.onnx")


def _fetch(uri: str, folder: Path, sha256: str | None = None) -> Path:
    return fetch_model(uri, folder / "fetched", relative_to=folder, sha256=sha256).path


def test_the_zoo_is_unpacked(tmp_path: Path) -> None:
    """A zoo model is written to the destination under its own name, in full or bare."""
    for name in ("image_processing/espcn_x3", "espcn_x3"):
        found = fetch_model(f"zoo://{name}", tmp_path, relative_to=tmp_path)
        assert found.path == tmp_path / "espcn_x3.onnx"
        assert found.name == "espcn_x3"
        assert found.sha256 == hashlib.sha256(found.path.read_bytes()).hexdigest()
        assert found.size_bytes == sum(each.stat().st_size for each in tmp_path.iterdir())
    written = {each.name for each in tmp_path.iterdir()}
    assert written == {"espcn_x3.onnx", "espcn_x3.onnx.data"}


def test_an_unknown_zoo_model_is_refused(tmp_path: Path) -> None:
    """A name that the zoo lacks is refused with the nearest ones."""
    with pytest.raises(ModelRefusedError, match="classification/resnet50"):
        _fetch("zoo://classification/resnet5O", tmp_path)


def test_files_stay_where_they_are(model: Path) -> None:
    """A file: model is used in place: relative to the folder given, or absolute."""
    for uri in ("file:copy.onnx", "file:./copy.onnx", f"file:{model}", f"file://{model}"):
        assert _fetch(uri, model.parent).samefile(model)
    assert not (model.parent / "fetched").exists()


def test_escaped_characters_are_unescaped(tmp_path: Path) -> None:
    """A file's name may be written with percent escapes, as in any URI."""
    onnx_models.save(onnx_models.identity(), tmp_path / "a b.onnx")
    assert _fetch("file:a%20b.onnx", tmp_path) == tmp_path / "a b.onnx"


def test_checksums_are_compared(model: Path) -> None:
    """A checksum that agrees is fine, in either case; another one is refused."""
    checksum = hashlib.sha256(model.read_bytes()).hexdigest()
    _fetch("file:copy.onnx", model.parent, checksum.upper())
    with pytest.raises(ModelRefusedError, match=f"should have the sha256 {'0' * 64}, but has"):
        _fetch("file:copy.onnx", model.parent, "0" * 64)


@pytest.mark.parametrize(
    ("uri", "sentence"),
    [
        ("s3://bucket/m.onnx", "accessKeyId and secretAccessKey are missing"),
        ("pvc://claim/m.onnx", "pvc:// is not available here"),
        ("pvc://claim", "names no file"),
        ("pvc://claim/a/../../m.onnx", "could leave its place"),
        ("configmap://a/b", "Unknown model address"),
        ("http://host/m.onnx", "Unknown model address"),
        ("copy.onnx", "Unknown model address"),
        ("", "Unknown model address"),
        ("file:", "names no file"),
        ("file://elsewhere/m.onnx", "names the machine 'elsewhere'"),
        ("file:missing.onnx", "Model file not found: .*Relative paths start in"),
        ("file:.", "is no file"),
        ("https://host/m.onnx", "has no sha256"),
    ],
)
def test_other_addresses_are_refused(model: Path, uri: str, sentence: str) -> None:
    """An address that cannot be served is refused by a sentence that says what can."""
    with pytest.raises(ModelRefusedError, match=sentence):
        _fetch(uri, model.parent)


@pytest.mark.parametrize("content", [b"", b"no model at all", b"\x08\x08", b"\x00" * 100])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    """A file that is no ONNX model is refused."""
    (tmp_path / "odd.onnx").write_bytes(content)
    with pytest.raises(ModelRefusedError, match="is not an ONNX model"):
        _fetch("file:odd.onnx", tmp_path)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "it is empty"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "run git lfs pull"),
        (b"PK\x03\x04 a checkpoint", "as PyTorch writes it: export the model to ONNX"),
        (b"\x89HDF\r\n\x1a\n", "as Keras writes it: convert the model to ONNX"),
        (b"<!DOCTYPE html>", "it is a web page or XML"),
        (b"some text", "its content has another format. Export the model to ONNX"),
    ],
)
def test_other_files_are_recognized(tmp_path: Path, content: bytes, sentence: str) -> None:
    """What is commonly taken for a model is named, with what to do."""
    (tmp_path / "odd.onnx").write_bytes(content)
    with pytest.raises(ModelRefusedError, match=f"is not an ONNX model: .*{sentence}"):
        _fetch("file:odd.onnx", tmp_path)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_truncated_models_are_recognized(model: Path, share: float) -> None:
    """Wherever a model is cut off, the message says so and how many bytes are missing at least."""
    content = model.read_bytes()
    model.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(ModelRefusedError, match="it is truncated: at least") as refused:
        _fetch("file:copy.onnx", model.parent)
    missing = int(str(refused.value).partition("at least ")[2].partition(" bytes")[0])
    assert 0 < missing <= len(content) - int(len(content) * share)


def test_truncated_external_data_is_refused(tmp_path: Path) -> None:
    """External data that is shorter than the tensors in it is refused with both sizes."""
    path = onnx_models.write_with_external_data(tmp_path)
    (tmp_path / "weights.bin").write_bytes(b"x" * 15)
    with pytest.raises(ModelRefusedError, match="it has 15 bytes, and the model reads 16"):
        read_graph(path, max_bytes=1 << 20)


def test_external_data_that_git_lfs_left_out_are_refused(tmp_path: Path) -> None:
    """A pointer is no data, also where it is longer than the tensors."""
    path = onnx_models.write_with_external_data(tmp_path)
    (tmp_path / "weights.bin").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(ModelRefusedError, match=r"onnx cannot be used: it is a pointer of Git LFS"):
        read_graph(path, max_bytes=1 << 20)


def test_a_model_without_outputs_is_refused(tmp_path: Path) -> None:
    """It is an ONNX model, but computes nothing that a client could read."""
    model = onnx_models.identity()
    del model.graph.output[:]
    with pytest.raises(ModelRefusedError, match=r"The model \S+ has no outputs: export it again"):
        read_graph(onnx_models.save(model, tmp_path / "m.onnx"), max_bytes=1 << 20)


def test_size_is_bounded_with_external_data(tmp_path: Path) -> None:
    """The limit holds for the ONNX file and its external data together."""
    path = onnx_models.write_with_external_data(tmp_path)
    whole = path.stat().st_size + 16
    found = read_graph(path, max_bytes=whole)
    assert found.size_bytes == whole
    weights = (tmp_path / "weights.bin").read_bytes()
    assert found.external_sha256 == {"weights.bin": hashlib.sha256(weights).hexdigest()}
    with pytest.raises(ModelRefusedError, match=f"at most {whole - 1} are allowed"):
        read_graph(path, max_bytes=whole - 1)


@pytest.mark.parametrize("location", ["../weights.bin", "/etc/hostname", "a/../../weights.bin"])
def test_external_data_elsewhere_is_refused(tmp_path: Path, location: str) -> None:
    """External data by a path that leaves the model's folder is refused."""
    with pytest.raises(ModelRefusedError, match="outside its own folder"):
        read_graph(onnx_models.write_with_external_data(tmp_path, location), max_bytes=1 << 20)


def test_external_data_through_a_link_is_refused(tmp_path: Path) -> None:
    """External data by a symbolic link that leaves the model's folder is refused."""
    folder = tmp_path / "model"
    folder.mkdir()
    path = onnx_models.write_with_external_data(folder)
    (folder / "weights.bin").rename(tmp_path / "weights.bin")
    (folder / "weights.bin").symlink_to(tmp_path / "weights.bin")
    with pytest.raises(ModelRefusedError, match="outside its own folder"):
        read_graph(path, max_bytes=1 << 20)


@pytest.mark.parametrize("location", ["loop.bin", "a\0b"])
def test_external_data_by_no_path_is_refused(tmp_path: Path, location: str) -> None:
    """A link to itself and a location that is no path are refused."""
    (tmp_path / "loop.bin").symlink_to(tmp_path / "loop.bin")
    with pytest.raises(ModelRefusedError):
        read_graph(onnx_models.write_with_external_data(tmp_path, location), max_bytes=1 << 20)


def test_missing_external_data_is_refused(tmp_path: Path) -> None:
    """External data that is not there is refused, and named."""
    path = onnx_models.write_with_external_data(tmp_path, "other.bin")
    with pytest.raises(ModelRefusedError, match=r"external data 'other\.bin'.* is not there"):
        read_graph(path, max_bytes=1 << 20)


def test_external_data_in_subgraphs_is_checked(tmp_path: Path) -> None:
    """External data of a tensor deep in a subgraph is held to the same folder."""
    model = onnx_models.busy()
    body = model.graph.node[0].attribute[0].g
    tensor = helper.make_tensor("w", TensorProto.FLOAT, [1], [1.0])
    tensor.ClearField("float_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../secret")
    body.initializer.append(tensor)
    path = onnx_models.save(model, tmp_path / "deep.onnx")
    with pytest.raises(ModelRefusedError, match="outside its own folder"):
        read_graph(path, max_bytes=1 << 20)
