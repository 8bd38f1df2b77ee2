"""`inferometer noise` with real processes."""

from pathlib import Path

from support.inferometer_process import started

_MODEL = "zoo://classification/mobilenet_v3_small"


def test_each_run_has_a_server_of_its_own_until_ctrl_c(tmp_path: Path) -> None:
    """Servers are restarted between runs; Ctrl-C shows what was measured and leaves nothing."""
    with started(tmp_path, "noise", _MODEL, "--seconds", "3600") as process:
        first = process.child("server")
        process.wait_for("run 1: p50 ")
        assert process.child("server") != first
        ended = process.wait_for("run 3: p50 ").press_ctrl_c().ended()
        assert process.left_behind() == []
    assert ended.code == 130
    assert f"runs of {_MODEL}, each with a server of its own." in ended.stdout or (
        # On a busy machine.
        "are VALID, and 3 are needed." in ended.stderr
    )
    assert [each.name for each in tmp_path.iterdir()] == ["temporary"]
