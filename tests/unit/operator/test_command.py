"""The operator's command line prepares the process before the main loop begins."""

import gc
import json
from pathlib import Path
from typing import Any

import pytest

from inferometer_operator import command


def test_collections_do_not_pass_over_the_imports(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """They are frozen when the loop begins: hundreds of lists of runs follow."""
    frozen: list[int] = []

    async def run(_: Any) -> None:
        frozen.append(gc.get_freeze_count())

    monkeypatch.setattr(command, "run_operator", run)
    monkeypatch.setattr(command, "_configure_logging", lambda: None)
    settings = tmp_path / "settings.yaml"
    images = {"serving": "a", "servingGpu": "b", "loadgen": "c"}
    settings.write_text(json.dumps({"images": images}))
    try:
        assert command.main(["--settings", str(settings), "--no-lease"]) == 0
    finally:
        gc.unfreeze()
    (count,) = frozen
    assert count > 10_000
