"""`inferometer overhead` reports what it cannot measure before it measures."""

from pathlib import Path

from support.inferometer_process import ran

_MODEL = "zoo://classification/shufflenet_v2_x0_5"


def test_a_rung_that_cannot_be_reached_ends_the_command_at_once(tmp_path: Path) -> None:
    """Not after the rungs below have taken their time."""
    ended = ran(tmp_path, "overhead", _MODEL, "--rung", "pod=http://127.0.0.1:9")
    assert ended.code == 1
    assert "The rung pod cannot be measured: No server can be reached" in ended.stderr
    assert "in process and server" not in ended.stderr
    assert "--wait" not in ended.stderr
