"""`inferometer overhead` compares the models of its rungs before it measures them in turn."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from inferometer_api.results.result import ResultDocument
from inferometer_api.spec.run import BenchmarkRun
from inferometer_cli.exits import ExitCode
from inferometer_cli.local import measurement, rungs
from support.command import Command
from support.results import a_result, an_environment

_OURS = {"model_sha256": "a" * 64, "external_data_sha256": "{}"}
_SERVER = "http://127.0.0.1:1"
_OTHER = "http://127.0.0.1:2"


@pytest.mark.parametrize(
    ("settings", "difference"),
    [
        (_OURS, ""),
        ({"runtime": "triton"}, ""),
        (_OURS | {"model_sha256": "b" * 64}, f"model_sha256 is {'b' * 64} instead of {'a' * 64}"),
        (_OURS | {"external_data_sha256": "{1}"}, "external_data_sha256 is {1} instead of {}"),
    ],
)
def test_a_rung_with_another_model_is_refused(
    settings: dict[str, str],
    difference: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Before the rounds, if both servers report a checksum; else what it adds is no overhead."""
    by_url = {_SERVER: _OURS, _OTHER: settings}

    @contextmanager
    def own_server(_: str) -> Iterator[tuple[str, str]]:
        yield _SERVER, ""

    def measure(run: BenchmarkRun, *_: object, **__: object) -> ResultDocument:
        external = run.spec.server.external
        assert external is not None
        assert external.url is not None
        environment = an_environment()
        server = environment.server.model_copy(update={"settings": by_url[external.url]})
        return a_result(environment=environment.model_copy(update={"server": server}))

    monkeypatch.setattr(rungs, "in_process", lambda *_: rungs.LadderRung("engine", lambda: 1e6))
    monkeypatch.setattr(rungs, "own_server", own_server)
    monkeypatch.setattr(measurement, "measure", measure)
    ended = Command(monkeypatch, capsys)("overhead", "m.onnx", "--rung", f"pod={_OTHER}")
    if not difference:
        assert ended.code == 0, ended.stderr
        assert "+ pod" in ended.stdout
        return
    assert ended.code == ExitCode.REFUSED
    message = f"The rung pod serves another model than the rung server: its {difference}."
    assert message in " ".join(ended.stderr.split())
    assert "rounds" not in ended.stderr
