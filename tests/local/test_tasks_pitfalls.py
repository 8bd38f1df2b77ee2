"""The tutorial of pitfalls is true: each of its changes has the effect that it says."""

import re
import subprocess
from functools import partial
from pathlib import Path
from shutil import copytree

import pytest

from support.local_runs import Done, done, together

ROOT = Path(__file__).parents[2]
_ROW = re.compile(r"^\| ([a-z ]+) \| `(s/.*?)` \| (\d+) \|", re.MULTILINE)
ROWS = {
    name: (change, int(right))
    for name, change, right in _ROW.findall((ROOT / "docs/tutorial/pitfalls.md").read_text())
}
_TOLERANCE = 2
"""Samples; engines add floats in another order on other machines."""


def changed(folder: Path, change: str) -> Done:
    """Run the example with a change of its manifest."""
    copytree(ROOT / "examples/18-pitfalls", folder / "18-pitfalls")
    file = folder / "18-pitfalls.yaml"
    file.write_text((ROOT / "examples/18-pitfalls.yaml").read_text())
    manifest = folder / "18-pitfalls/model.yaml"
    before = manifest.read_text()
    after = subprocess.run(
        ["sed", change], input=before, capture_output=True, text=True, check=True
    ).stdout
    assert (after != before) == (change != "s/RGB/RGB/"), change
    manifest.write_text(after)
    return done(folder, file=file)


def test_each_pitfall_has_the_effect_that_the_tutorial_says(tmp_path: Path) -> None:
    """The share of right answers after each change, as the page prints it."""
    assert len(ROWS) == 9
    runs = {name: partial(changed, tmp_path / name, change) for name, (change, _) in ROWS.items()}
    with together(runs, 2) as futures:
        found = {name: _right(future.result()) for name, future in futures.items()}
    for name, (_, right) in ROWS.items():
        assert found[name] == pytest.approx(right, abs=_TOLERANCE), (name, found)


def _right(ended: Done) -> int:
    assert ended.result is not None, ended.ended.stderr
    (scenario,) = ended.result.scenarios
    assert scenario.accuracy is not None, ended.result.outcome
    assert scenario.accuracy.processed == 200
    correct = scenario.accuracy.figures[0].correct
    assert correct is not None
    return correct
