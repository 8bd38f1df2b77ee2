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
    assert known.split()[-7:] == ["1", "1", "0", "<", "0.1", "%", "none"]
    assert unknown.split()[-5:] == ["1", "0", "0", "-", "-"]
    assert note.startswith("> at least: some layers have no time")


@pytest.mark.usefixtures("_models")
def test_the_error_of_an_unknown_layer_is_null(capsys: pytest.CaptureFixture[str]) -> None:
    """As JSON it is null."""
    command.predict_models(["known", "unknown"], json=True)
    assert [each["uncertainty"] for each in json.loads(capsys.readouterr().out)] == [0.0, None]


def test_coverage_names_the_operators_that_lack_a_time(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The four most frequent ones; of the others it gives the number."""
    keys = ["Conv", "Gemm", "Loop", "If", "Scan", "Relu"]
    graph = layer_graph(*((key, [at], [at + 1]) for at, key in enumerate(keys)))
    chain = predict(graph, brick_timings({}), 2)
    assert list(chain.missing.values()) == ["Conv-Gemm", "Loop-If", "Scan-Relu"]
    found = [predict(graph, brick_timings({})), chain]
    monkeypatch.setattr(command, "_predictions", lambda *_, **__: found)
    command.coverage(["model"])
    _, single, chains = capsys.readouterr().out.splitlines()
    assert single.endswith("  0 %  6: 1 Conv, 1 Gemm, 1 Loop, 1 If, 2 others")
    assert chains.endswith("  0 %  3: 1 Conv-Gemm, 1 Loop-If, 1 Scan-Relu")
    command.coverage(["model"], json=True)
    documents = json.loads(capsys.readouterr().out)
    assert documents[1]["missingOperators"] == {"Conv-Gemm": 1, "Loop-If": 1, "Scan-Relu": 1}
