"""Requests carry tensors that fit the model; other inputs are refused with a sentence."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tritonclient.grpc.service_pb2 import (  # type: ignore[import-untyped]  # has no types
    ModelInferRequest,
)
from tritonclient.utils import (  # type: ignore[import-untyped]  # has no types
    deserialize_bytes_tensor,
)

from inferometer_api.results.result import Tensor
from inferometer_api.spec.load import FileInputs, Inputs, Load, RandomInputs
from inferometer_loadgen.requests import pool
from inferometer_loadgen.requests.encode import Encoder, json_note, uses_binary
from inferometer_loadgen.requests.inputs import (
    DTYPES,
    POOL_BYTES,
    InputRefusedError,
    RandomSource,
    bytes_each,
    fit_shapes,
    most_requests,
)
from inferometer_loadgen.requests.npz_file import FileSource, read_npz

IMAGE = Tensor(name="image", datatype="FP32", shape=[-1, 3, -1, -1])
ROWS = Tensor(name="rows", datatype="FP32", shape=[-1, 4])
HUGE = Tensor(name="x", datatype="FP32", shape=[-1, 10**12])
FIXED = Tensor(name="fixed", datatype="INT64", shape=[2, 3])


def source(tensor: Tensor, seed: int = 1, pool_size: int = 4) -> RandomSource:
    """Return random requests of one tensor."""
    return RandomSource([tensor], fit_shapes([tensor], {}, 2), seed, pool_size)


def test_the_batch_takes_the_open_first_axis() -> None:
    """An open first axis is the batch; a shape that was given keeps its other axes."""
    given_shapes = {"image": [1, 3, 48, 192]}
    assert fit_shapes([IMAGE], given_shapes, 8) == {"image": (8, 3, 48, 192)}
    assert fit_shapes([ROWS], {}, 1) == {"rows": (1, 4)}
    assert fit_shapes([FIXED], {}, 1) == {"fixed": (2, 3)}
    assert fit_shapes([FIXED], {}, 2) == {"fixed": (2, 3)}
    assert fit_shapes([ROWS, FIXED], {}, 5) == {"rows": (5, 4), "fixed": (2, 3)}
    assert fit_shapes([Tensor(name="n", datatype="INT32", shape=[])], {}, 1) == {"n": ()}


@pytest.mark.parametrize(
    ("tensors", "shapes", "batch_size", "words"),
    [
        ([IMAGE], {}, 1, ["'image'", "[-1, 3, -1, -1]", "give the whole shape"]),
        ([IMAGE], {"image": [3, 48, 48]}, 1, ["rank 3", "rank 4", "batch axis included"]),
        ([IMAGE], {"image": [1, 4, 48, 48]}, 1, ["axis 1 is 3", "[1, 4, 48, 48]"]),
        ([IMAGE], {"picture": [1, 3, 8, 8]}, 1, ["'picture'", "'image'", "use one of these"]),
        ([FIXED], {}, 8, ["batch of 8", "[2, 3]", "open first axis", "use batch size 1"]),
        (
            [HUGE],
            {},
            1,
            ["batch 1", "4000000000000 bytes", "x: FP32 [1, 1000000000000]", "2047 MiB"],
        ),
        ([ROWS], {}, 2**30, ["batch 1073741824", "smaller batch"]),
        ([IMAGE], {"image": [1, 3, 2**20, 2**20]}, 1, ["smaller inputs"]),
        ([Tensor(name="e", datatype="BOOL", shape=[0, 10**30])], {}, 1, ["e: BOOL"]),
        ([Tensor(name="d", datatype="BOOL", shape=[1] * 65)], {}, 1, ["'d' has 65 axes", "64"]),
    ],
)
def test_what_does_not_fit_is_refused(
    tensors: list[Tensor], shapes: dict[str, list[int]], batch_size: int, words: list[str]
) -> None:
    """A refusal says what was requested, what was found and what to do."""
    with pytest.raises(InputRefusedError) as refusal:
        fit_shapes(tensors, shapes, batch_size)
    for word in words:
        assert word in str(refusal.value)


@pytest.mark.parametrize("datatype", DTYPES)
def test_random_tensors_are_seeded_and_fit(datatype: str) -> None:
    """The same seed gives the same tensors, another one others, all of their type and range."""
    tensor = Tensor(name="x", datatype=datatype, shape=[-1, 50])
    array = source(tensor).request(0)["x"]
    assert array.shape == (2, 50)
    assert array.dtype == DTYPES[datatype]
    assert np.array_equal(source(tensor).request(0)["x"], array)
    assert not np.array_equal(source(tensor).request(1)["x"], array)
    assert not np.array_equal(source(tensor, seed=2).request(0)["x"], array)
    if datatype not in {"BYTES", "BOOL"}:
        values = array.astype(np.float64)
        assert values.min() >= 0
        assert values.max() <= (1 if datatype in {"FP16", "BF16", "FP32", "FP64"} else 99)


def test_masks_and_token_types_have_values_that_mean_something() -> None:
    """An attention mask is all ones and token types are all zeros, so that any model takes them."""
    mask = Tensor(name="attention_mask", datatype="INT64", shape=[-1, 8])
    types = Tensor(name="token_type_ids", datatype="INT64", shape=[-1, 8])
    assert source(mask).request(0)["attention_mask"].all()
    assert not source(types).request(0)["token_type_ids"].any()


def test_a_pool_of_large_requests_is_smaller() -> None:
    """A pool takes at most 256 MiB, and a note says when it is smaller than requested."""
    large = Tensor(name="x", datatype="FP32", shape=[-1, 10_000_000])
    load = Load(inputs=Inputs(random=RandomInputs(pool_size=16)))
    inputs = pool.InputSources(load, None, [large])
    found = inputs.source(4)
    assert found.count == POOL_BYTES // 160_000_000 == 1
    note = inputs.note(found, 4)
    assert note is not None
    assert "1 instead of 16" in note
    assert inputs.note(pool.InputSources(load, None, [ROWS]).source(4), 4) is None


@given(st.integers(1, 10**12))
def test_a_pool_has_at_least_one_request(size: int) -> None:
    """However large a request is, one is made, and never more than fit."""
    count = most_requests(size)
    assert count >= 1
    assert count == 1 or count * size <= POOL_BYTES


def save(path: Path, **arrays: Any) -> Path:
    """Write a .npz file."""
    np.savez(path / "in.npz", **arrays)
    return path / "in.npz"


def from_file(path: Path, tensors: list[Tensor], batch_size: int) -> FileSource:
    """Return the requests of a file."""
    return FileSource(path, read_npz(path), tensors, batch_size)


@settings(max_examples=30)
@given(st.integers(1, 12), st.integers(1, 9))
def test_requests_take_consecutive_samples(samples: int, batch_size: int) -> None:
    """Request k has samples k*b to k*b+b-1, counted round and round, each sample equally often."""
    rows = np.arange(samples * 4, dtype=np.float32).reshape(samples, 4)
    found = FileSource(Path("f.npz"), {"rows": rows}, [ROWS], batch_size)
    sent = [found.request(index)["rows"] for index in range(found.count)]
    assert all(array.shape == (batch_size, 4) for array in sent)
    order = (np.concatenate(sent)[:, 0] / 4).astype(int).tolist()
    assert order == [place % samples for place in range(len(order))]
    assert len(order) % samples == 0


def test_samples_of_a_file_that_are_too_many_for_a_request_are_refused(tmp_path: Path) -> None:
    """The size of a request is known before one is made, of a small file and a large batch, too."""
    path = save(tmp_path, rows=np.zeros((1, 4), dtype=np.float32))
    with pytest.raises(InputRefusedError, match="2047 MiB can be sent"):
        from_file(path, [ROWS], 2**30)


def test_a_file_may_hold_whole_tensors(tmp_path: Path) -> None:
    """Where the model's batch is fixed each sample is a whole tensor."""
    path = save(tmp_path, fixed=np.arange(12).reshape(2, 2, 3))
    found = from_file(path, [FIXED], 1)
    assert found.count == 2
    assert found.request(1)["fixed"].tolist() == [[6, 7, 8], [9, 10, 11]]


def test_a_file_may_hold_strings_and_bfloat16(tmp_path: Path) -> None:
    """Strings of a file become bytes, and 32-bit floats bfloat16, which no file can hold."""
    text = Tensor(name="text", datatype="BYTES", shape=[-1])
    small = Tensor(name="small", datatype="BF16", shape=[-1, 1])
    path = save(tmp_path, text=np.array(["ä", "b"]), small=np.ones((2, 1), np.float32))
    request = from_file(path, [text, small], 2).request(0)
    assert request["text"].tolist() == ["ä".encode(), b"b"]
    assert request["small"].dtype == DTYPES["BF16"]


@pytest.mark.parametrize(
    ("arrays", "batch_size", "words"),
    [
        ({}, 1, ["no array", "'rows'"]),
        ({"rows": np.ones((2, 5), np.float32)}, 1, ["shape [2, 5]", "[samples, 4]"]),
        ({"rows": np.ones((2, 4))}, 1, ["float64", "type float32"]),
        ({"rows": np.ones((0, 4), np.float32)}, 1, ["at least 1"]),
        ({"rows": np.float32(1)}, 1, ["shape []"]),
        ({"rows": np.ones((2, 4), np.float32), "x": np.ones(2)}, 1, ["'x'", "'rows'"]),
    ],
)
def test_a_file_that_does_not_fit_is_refused(
    tmp_path: Path, arrays: dict[str, Any], batch_size: int, words: list[str]
) -> None:
    """A refusal names the file, what it has and what the model needs."""
    path = save(tmp_path, **arrays)
    with pytest.raises(InputRefusedError) as refusal:
        from_file(path, [ROWS], batch_size)
    for word in [str(path), *words]:
        assert word in str(refusal.value)


def test_arrays_of_different_length_are_refused(tmp_path: Path) -> None:
    """All inputs need the same number of samples."""
    other = Tensor(name="other", datatype="FP32", shape=[-1])
    path = save(tmp_path, rows=np.ones((2, 4), np.float32), other=np.ones(3, np.float32))
    with pytest.raises(InputRefusedError, match="rows: 2, other: 3"):
        from_file(path, [ROWS, other], 1)


@pytest.mark.parametrize("content", [None, b"", b"PK\x03\x04 half", b"\x93NUMPY"])
def test_a_file_that_is_no_npz_is_refused(tmp_path: Path, content: bytes | None) -> None:
    """A missing or broken file ends in one sentence with its name."""
    path = tmp_path / "in.npz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputRefusedError, match=r"in\.npz"):
        read_npz(path)


def test_a_single_array_is_refused(tmp_path: Path) -> None:
    """A .npy file is distinguished from a .npz file."""
    np.save(tmp_path / "in.npy", np.ones(2))
    with pytest.raises(InputRefusedError, match=r"is one array.*numpy\.savez"):
        read_npz(tmp_path / "in.npy")


def test_a_file_of_objects_is_not_unpickled(tmp_path: Path) -> None:
    """Objects in a file could run code when they are read: they are refused."""
    path = save(tmp_path, rows=np.array([{}], dtype=np.object_))
    with pytest.raises(InputRefusedError, match=r"is not a \.npz file of plain arrays") as refused:
        read_npz(path)
    assert "pickle" not in str(refused.value)


def test_inputs_from_a_file_are_those_that_the_load_names(tmp_path: Path) -> None:
    """With inputs.file the requests are the file's."""
    path = save(tmp_path, rows=np.full((3, 4), 7, np.float32))
    load = Load(inputs=Inputs(file=FileInputs(uri="file:in.npz")))
    inputs = pool.InputSources(load, str(path), [ROWS])
    assert inputs.source(1).request(2)["rows"].tolist() == [[7, 7, 7, 7]]
    assert inputs.note(inputs.source(1), 1) is None


def test_a_file_may_leave_out_optional_inputs(tmp_path: Path) -> None:
    """They are not sent; a required input must be there."""
    path = save(tmp_path, rows=np.full((3, 4), 7, np.float32))
    load = Load(inputs=Inputs(file=FileInputs(uri="file:in.npz")))
    inputs = pool.InputSources(load, str(path), [ROWS, FIXED], ["fixed"])
    tensors = inputs.source(1).request(0)
    assert list(tensors) == ["rows"]
    for protocol in ("HTTP", "GRPC"):
        payload = Encoder(protocol, "m", "", [ROWS, FIXED], [], binary=True).encode(tensors).payload
        assert b"rows" in payload
        assert b"fixed" not in payload
    with pytest.raises(InputRefusedError, match="no array for the model's input 'fixed'"):
        pool.InputSources(load, str(path), [ROWS, FIXED]).source(1)


@pytest.mark.parametrize(
    ("load", "extensions", "binary", "notes"),
    [
        (Load(), ["binary_tensor_data"], True, 0),
        (Load(), [], False, 1),
        (Load(tensors="Binary"), [], True, 0),
        (Load(tensors="Json"), ["binary_tensor_data"], False, 0),
        (Load(protocol="GRPC"), [], True, 0),
    ],
)
def test_the_load_decides_how_tensors_are_carried(
    load: Load,
    extensions: list[str],
    binary: bool,  # noqa: FBT001 - a table
    notes: int,
) -> None:
    """Auto follows the server's metadata, and a note says that JSON costs more."""
    assert uses_binary(load, extensions) == binary
    assert len(list(json_note(load, extensions))) == notes


def encoder(protocol: Any, tensor: Tensor, *, binary: bool = True) -> Encoder:
    """Return an encoder of one input and one output."""
    return Encoder(protocol, "m", "2", [tensor], [ROWS], binary)


@pytest.mark.parametrize("datatype", DTYPES)
def test_every_datatype_is_encoded_for_both_protocols(datatype: str) -> None:
    """Tritonclient's bytes hold the tensor, behind the JSON or as raw contents."""
    tensor = Tensor(name="x", datatype=datatype, shape=[-1, 3])
    tensors = source(tensor).request(0)
    http = encoder("HTTP", tensor).encode(tensors)
    assert http.json_length is not None
    raw = http.payload[http.json_length :]
    message: Any = ModelInferRequest.FromString(encoder("GRPC", tensor).encode(tensors).payload)
    assert message.raw_input_contents[0] == raw
    assert (message.model_name, message.model_version) == ("m", "2")
    assert [output.name for output in message.outputs] == ["rows"]
    assert (message.inputs[0].datatype, list(message.inputs[0].shape)) == (datatype, [2, 3])
    if datatype == "BYTES":
        decoded = deserialize_bytes_tensor(raw)
    else:
        decoded = np.frombuffer(raw, DTYPES[datatype])
        assert len(raw) == tensors["x"].size * bytes_each(datatype)
    assert decoded.reshape(2, 3).tolist() == tensors["x"].tolist()


def test_without_the_binary_extension_http_sends_json() -> None:
    """A server that reports no binary tensors gets JSON, which cannot carry bfloat16."""
    request = encoder("HTTP", ROWS, binary=False).encode(source(ROWS).request(0))
    assert request.json_length is None
    assert b'"data"' in request.payload
    half = Tensor(name="x", datatype="BF16", shape=[-1, 3])
    with pytest.raises(InputRefusedError, match="BF16"):
        encoder("HTTP", half, binary=False).encode(source(half).request(0))
