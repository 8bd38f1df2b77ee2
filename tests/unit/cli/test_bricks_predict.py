"""The table of predicted latencies says what it does not know."""

import json

import pytest

from inferometer_analysis.bricks.predict import Prediction, predict
from inferometer_cli.commands.bricks import predict as command
from support.layer_graphs import brick_timings, layer_graph, timing


@pytest.fixture
def _models(monkeypatch: pytest.MonkeyPatch) -> None:
    """Predict a model whose only layer was timed, and one whose only layer was not."""
    times = brick_timings({"a": timing(1_100)})
    found: list[Prediction] = [
        predict(layer_graph((operator, [0], [1]), model=model), times)
        for operator, model in (("a", "known"), ("Loop", "unknown"))
    ]
    monkeypatch.setattr(command, "_predictions", lambda *_, **__: found)


@pytest.mark.usefixtures("_models")
def test_the_error_of_an_unknown_layer_is_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    """A model without any known layer has no ±; it is not 0."""
    command.predict_models(["known", "unknown"])
    _, known, unknown, _, note = capsys.readouterr().out.splitlines()
    assert known.split()[-5:] == ["1", "1", "0", "0.0", "%"]
    assert unknown.split()[-4:] == ["1", "0", "0", "-"]
    assert note.startswith("> at least: some layers have no time")


@pytest.mark.usefixtures("_models")
def test_the_error_of_an_unknown_layer_is_null(capsys: pytest.CaptureFixture[str]) -> None:
    """As JSON it is null."""
    command.predict_models(["known", "unknown"], json=True)
    assert [each["uncertainty"] for each in json.loads(capsys.readouterr().out)] == [0.0, None]
