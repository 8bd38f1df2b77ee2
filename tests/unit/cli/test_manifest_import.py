"""`inferometer manifest import` converts a file, and explains in the file's own terms."""

from pathlib import Path

import pytest

from inferometer_cli.exits import ExitCode
from inferometer_tasks.manifest_file import read_manifest
from support.command import Command

SOURCE = """\
name: net
version: 1.0.0
framework: {name: onnxruntime}
license: MIT License
inputs: [{type: raw, parameters: {input_layer: x}}]
outputs: [{type: raw, parameters: {output_layer: y}}]
"""


@pytest.fixture
def inferometer(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Return how to run the command."""
    return Command(monkeypatch, capsys)


def test_a_tensor_may_have_a_name_that_yaml_takes_as_true(
    inferometer: Command, tmp_path: Path
) -> None:
    """The file that is written is read with the names of the source."""
    (tmp_path / "in.yml").write_text(SOURCE)
    written = tmp_path / "model.yaml"
    ended = inferometer("manifest", "import", str(tmp_path / "in.yml"), "-o", str(written))
    assert ended.code == 0, ended.stderr
    assert "8 fields are mapped, 0 are not" in ended.stderr
    assert [each.name for each in read_manifest(written).outputs] == ["y"]


def test_a_tensor_without_a_name_is_to_be_checked(inferometer: Command, tmp_path: Path) -> None:
    """The name that is written for it is no name of the model."""
    (tmp_path / "in.yml").write_text(SOURCE.replace("{output_layer: y}", "{}"))
    ended = inferometer("manifest", "import", str(tmp_path / "in.yml"))
    assert "check: outputs[0] does not name its tensor, and is output here." in ended.stderr


def test_a_refusal_names_no_line_of_a_text_that_nobody_wrote(
    inferometer: Command, tmp_path: Path
) -> None:
    """Lines of the converted text are not those of the file."""
    source = SOURCE.replace("outputs: [", "outputs: [{type: raw, parameters: {output_layer: y}}, ")
    (tmp_path / "in.yml").write_text(source)
    ended = inferometer("manifest", "import", str(tmp_path / "in.yml"))
    assert ended.code == ExitCode.REFUSED
    assert "in.yml cannot be converted:" in ended.stderr
    assert "outputs" in ended.stderr
    assert "line " not in ended.stderr


def test_a_field_of_another_form_is_not_called_missing(
    inferometer: Command, tmp_path: Path
) -> None:
    """What the conversion found wrong with it is the reason."""
    source = SOURCE.replace("[{type: raw, parameters: {input_layer: x}}]", "{type: raw}")
    (tmp_path / "in.yml").write_text(source)
    ended = inferometer("manifest", "import", str(tmp_path / "in.yml"))
    assert ended.code == ExitCode.REFUSED
    assert "\n  inputs: it must be a list" in ended.stderr


def test_a_file_that_cannot_be_written_is_no_internal_error(
    inferometer: Command, tmp_path: Path
) -> None:
    """It is named with the reason."""
    (tmp_path / "in.yml").write_text(SOURCE)
    target = tmp_path / "absent" / "model.yaml"
    ended = inferometer("manifest", "import", str(tmp_path / "in.yml"), "-o", str(target))
    assert ended.code == ExitCode.FAILED
    assert f"Cannot write {target}: No such file or directory." in ended.stderr
