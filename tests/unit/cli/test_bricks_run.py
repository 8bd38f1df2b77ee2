"""`inferometer bricks run` reads an exported file of any version that it can."""

from pathlib import Path

import pytest

from inferometer_api.layers.bricks import BrickSuite
from inferometer_api.layers.split import compose_suite
from inferometer_api.layers.timings import LayerFailure, LayerTimings
from inferometer_cli.commands.bricks.run import _without_views, run
from inferometer_cli.exits import FailedError, RefusedError
from inferometer_cli.local import layers
from support.layer_graphs import brick_timings, layer_graph


@pytest.fixture(autouse=True)
def nothing_is_timed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Find no brick known, and time none."""
    monkeypatch.setenv("INFEROMETER_DATABASE", str(tmp_path / "results.db"))
    monkeypatch.setattr(layers, "known_here", lambda *_, **__: None)
    monkeypatch.setattr(layers, "time_layers", lambda *_: brick_timings({}))


def _exported(folder: Path, version: str) -> str:
    """Return the name of an exported file without bricks."""
    suite = BrickSuite(
        schema_version=version,
        engine="onnxruntime",
        engine_version="1",
        granularity=1,
        layers={},
        bricks={},
    )
    file = folder / "bricks.json"
    file.write_text(suite.model_dump_json(exclude_none=True))
    return str(file)


@pytest.mark.parametrize(("version", "notices"), [("1.0", 0), ("1.1", 0), ("1.9", 1)])
def test_a_newer_minor_version_is_read_with_a_notice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], version: str, notices: int
) -> None:
    """It only adds fields."""
    run([_exported(tmp_path, version)])
    assert capsys.readouterr().err.count("has schema version 1.9. This program reads") == notices


def test_a_newer_major_version_is_refused(tmp_path: Path) -> None:
    """The sentence says what to do."""
    words = (
        r"bricks\.json has schema version 2\.0, and this program reads version 1\.1\. Use a newer"
    )
    with pytest.raises(RefusedError, match=words):
        run([_exported(tmp_path, "2.0")])


def test_views_are_no_unknown_bricks() -> None:
    """What looks at a tensor in another shape is free: it needs no time of its own."""
    graph = layer_graph(("Reshape", [0], [1]), ("Relu", [1], [2]))
    assert set(_without_views(compose_suite([graph], 1)).bricks) == {"Relu"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param(
            '{"engine": "onnxruntime", "layers": {',
            "is no whole file of `inferometer bricks export`. Write it again, or copy all of it.",
            id="cut off",
        ),
        pytest.param(
            '{"engine": "onnxruntime", "engineVersion": "1", "granularity": 1, "layers": {}}',
            "is no whole file of `inferometer bricks export`: bricks is missing or wrong. Write",
            id="without bricks",
        ),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, text: str, words: str) -> None:
    """The sentence says what is missing."""
    file = tmp_path / "bricks.json"
    file.write_text(text)
    with pytest.raises(RefusedError) as refused:
        run([str(file)])
    assert words in str(refused.value)


def test_a_run_in_which_every_brick_fails_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each is named with its reason, and no busy machine is blamed."""
    suite = compose_suite([layer_graph(("Loop", [0], [1]))], 1)
    file = tmp_path / "bricks.json"
    file.write_text(suite.model_dump_json(exclude_none=True))
    failure = LayerFailure(key="Loop", engine="onnxruntime", reason="it reads the graph around it")

    def fail(*_: object) -> LayerTimings:
        return brick_timings({}).model_copy(update={"failed": [failure], "other_cpu_share": 0.9})

    monkeypatch.setattr(layers, "time_layers", fail)
    with pytest.raises(FailedError, match="No brick could be timed, and none was known"):
        run([str(file)])
    shown = capsys.readouterr().err
    assert "not timed: Loop: it reads the graph around it" in shown
    assert "quiet" not in shown


def test_a_model_of_views_alone_has_nothing_to_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a tolerance views are free: that is no failure."""
    graph = layer_graph(("Identity", [0], [1]))
    model = tmp_path / "net.onnx"
    model.touch()
    monkeypatch.setattr("inferometer_cli.commands.bricks.run.describe_models", lambda *_: [graph])
    run([str(model)], tolerance=5.0)
    assert "no layers that take time: there is nothing to time" in capsys.readouterr().out
