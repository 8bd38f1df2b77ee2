"""Children that report a document in the last line of their output."""

import asyncio
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from inferometer_api.layers.timings import LayerTimings, MachineState
from inferometer_cli.exits import FailedError, RefusedError
from inferometer_cli.local import layers
from inferometer_cli.local.child_process import first_line, output_document, start_child


def program(text: str) -> tuple[str, ...]:
    """Return the command of a child that runs this Python."""
    return (sys.executable, "-c", text)


def test_the_last_line_is_the_document() -> None:
    """A watcher gets each line as it comes."""
    seen: list[bytes] = []
    command = program("print('one'); print('two')")
    assert asyncio.run(output_document("probe", command, seen.append)) == b"two\n"
    assert seen == [b"one\n", b"two\n"]


def test_a_child_has_the_variables_that_are_added() -> None:
    """Next to those of this process."""
    command = program("import os; print(os.environ['ADDED'], 'PATH' in os.environ)")
    found = asyncio.run(output_document("probe", command, env={"ADDED": "yes"}))
    assert found == b"yes True\n"


def test_a_child_that_ends_early_has_no_document() -> None:
    """The error has the exit code and the last output."""
    command = program("import sys; print('half'); sys.exit('It broke.')")
    with pytest.raises(FailedError, match=r"The probe ended early \(exit code 1\)(.|\n)*It broke"):
        asyncio.run(output_document("probe", command))


def test_layers_whose_child_ends_early_are_reported_with_its_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sentence names what ended."""
    monkeypatch.setattr(layers, "_MODULE", "no_such_module")
    expected = r"measurement of the layers ended early \(exit code 1\)(.|\n)*no_such_module"
    with pytest.raises(FailedError, match=expected):
        layers.describe_model(tmp_path / "model.onnx", layers.LayerSettings())


def test_the_progress_of_timed_layers_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each event of it, and not the document after them."""
    machine = MachineState(
        name="m",
        engines={},
        threads=1,
        cache_bytes=1,
        cache_bytes_per_second=1.0,
        memory_bytes_per_second=1.0,
    )
    document = LayerTimings(machine=machine, node_nanoseconds=3, seconds=1.0).model_dump_json()
    event = '{"event": "progress", "done": 1, "total": 2}'
    (tmp_path / "timed.py").write_text(f"print({event!r})\nprint({document!r})\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(layers, "_MODULE", "timed")
    seen: list[tuple[int, int]] = []
    found = layers.time_layers(
        layers.TimingRequest(layers.LayerSettings()),
        lambda done, total: seen.append((done, total)),
    )
    assert found.node_nanoseconds == 3
    assert seen == [(1, 2)]


@pytest.mark.parametrize(
    ("code", "said", "expected", "message"),
    [
        (2, "refused: No.", RefusedError, r"^No\.$"),
        (2, "usage: probe", FailedError, r"exited at once \(exit code 2\)"),
        (1, "refused: No.", FailedError, r"exited at once \(exit code 1\)"),
        (1, "failed: Full.", FailedError, r"^Full\.$"),
    ],
)
def test_a_child_without_output_explains_its_exit_code(
    code: int, said: str, expected: type[Exception], message: str
) -> None:
    """Code and prefix together make a refusal: in other programs the code means anything."""

    async def line() -> bytes:
        command = program(f"import sys; sys.stderr.write({said!r}); sys.exit({code})")
        async with AsyncExitStack() as stack:
            return await first_line(await start_child("probe", command, stack))

    with pytest.raises(expected, match=message):
        asyncio.run(line())
