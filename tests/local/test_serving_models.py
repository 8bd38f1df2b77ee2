"""One server holds several models: each has its own metadata, answers and statistics."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as over_grpc  # type: ignore[import-untyped]  # ships no types
import tritonclient.http as over_http  # type: ignore[import-untyped]  # ships no types
from tritonclient.utils import (  # type: ignore[import-untyped]  # ships no types
    InferenceServerException,
)

from support import onnx_models
from support.serving_process import ServerProcess, serving, started

FLAVOURS = {"http": over_http, "grpc": over_grpc}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with models of three shapes."""
    folder = tmp_path_factory.mktemp("models")
    onnx_models.save(onnx_models.identity(), folder / "copy.onnx")
    onnx_models.save(onnx_models.identity(shape=("batch", 7)), folder / "wide.onnx")
    onnx_models.save(onnx_models.identity(shape=("batch", "n")), folder / "open.onnx")
    return folder


@pytest.fixture(scope="module")
def server(models: Path) -> Iterator[ServerProcess]:
    """Serve all three; the third needs a shape to warm up with, which fits the first only."""
    with serving(
        models / "copy.onnx",
        *("--other-model", f"wide={models / 'wide.onnx'}"),
        *("--other-model", f"open={models / 'open.onnx'}"),
        *("--warm-up-shape", "x=1,4"),
        *("--model-control-mode", "explicit"),
    ) as process:
        yield process


@pytest.fixture(params=list(FLAVOURS))
def client(request: pytest.FixtureRequest, server: ServerProcess) -> Iterator[Any]:
    """Connect by each protocol."""
    flavour = FLAVOURS[request.param]
    url = server.http_url if flavour is over_http else server.grpc_url
    with flavour.InferenceServerClient(url) as connected:
        yield connected


def _infer(client: Any, model: str, width: int) -> Any:
    flavour = over_http if isinstance(client, over_http.InferenceServerClient) else over_grpc
    array = np.arange(width, dtype=np.float32).reshape(1, width)
    tensor = flavour.InferInput("x", [1, width], "FP32")
    tensor.set_data_from_numpy(array)
    return client.infer(model, [tensor]).as_numpy("y")


def _json(client: Any) -> dict[str, bool]:
    return {} if isinstance(client, over_http.InferenceServerClient) else {"as_json": True}


def test_each_model_answers_by_its_name(client: Any) -> None:
    """A request goes to the model in its path, with that model's shapes."""
    for model, width in (("copy", 4), ("wide", 7), ("open", 5)):
        assert client.is_model_ready(model)
        assert _infer(client, model, width).tolist() == [list(range(width))]
        metadata = client.get_model_metadata(model, **_json(client))
        assert metadata["name"] == model
    with pytest.raises(InferenceServerException, match="shape"):
        _infer(client, "wide", 4)


def test_statistics_are_those_of_the_model(client: Any) -> None:
    """Each model counts its own requests alone; without a name all are listed."""

    def counts() -> dict[str, int]:
        found = client.get_inference_statistics(**_json(client))["model_stats"]
        return {each["name"]: int(each["inference_count"]) for each in found}

    before = counts()
    for _ in range(3):
        _infer(client, "wide", 7)
    after = counts()
    assert {name: after[name] - before[name] for name in after} == {"copy": 0, "wide": 3, "open": 0}
    alone = client.get_inference_statistics("wide", **_json(client))["model_stats"]
    assert [each["name"] for each in alone] == ["wide"]


def test_the_repository_lists_all(client: Any) -> None:
    """Every model is ready; an unknown one is refused with the names that there are."""
    index = client.get_model_repository_index(**_json(client))
    listed = index if isinstance(index, list) else index["models"]
    assert {(each["name"], each["state"]) for each in listed} == {
        ("copy", "READY"),
        ("wide", "READY"),
        ("open", "READY"),
    }
    with pytest.raises(InferenceServerException, match="has only 'copy', 'wide', 'open'"):
        _infer(client, "absent", 4)


def test_other_models_stay_until_the_end(client: Any) -> None:
    """Only the first model can be unloaded or loaded anew."""
    with pytest.raises(InferenceServerException, match="one of --other-model"):
        client.unload_model("wide")
    assert _infer(client, "wide", 7).shape == (1, 7)


def test_two_models_of_one_name_are_refused(models: Path) -> None:
    """The server does not start if two models have one name, or one of them cannot be read."""
    other = f"copy={models / 'wide.onnx'}"
    with started(models / "copy.onnx", "--other-model", other) as process:
        assert process.exit_code() == 2
        assert "Two models have the name 'copy'" in process.last_event()["message"]
