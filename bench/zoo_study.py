"""Studies of many models of the zoo: what each model gave is kept, so that they can be resumed.

The lines of a study lie in .cache/bench/NAME.jsonl of the checkout. An interrupted study goes on
with the models that are missing; to measure all anew, remove the file.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.processes import ROOT, BenchError

FOLDER = ROOT / ".cache" / "bench"


def study(
    name: str, models: Sequence[str], measure: Callable[[str], dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Return what `measure` gives for each model, by model; those known already are not measured.

    A model that fails is reported and left out. Raises BenchError if all of them fail.
    """
    file = FOLDER / f"{name}.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    found = _read_known(file, models)
    if found:
        _say(f"{len(found)} of {len(models)} models are in {file}; remove it to measure them anew.")
    began, missing = time.monotonic(), [each for each in models if each not in found]
    for number, model in enumerate(missing):
        try:
            found[model] = measure(model)
        except BenchError as error:
            _say(f"{model} failed: {error}")
            continue
        with file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps({"model": model, "found": found[model]}) + "\n")
        left = (time.monotonic() - began) / (number + 1) * (len(missing) - number - 1)
        _say(f"[{len(found)}/{len(models)}] {name}: {model}; about {left / 60:.0f} min left")
    if not found:
        raise BenchError(f"No model of the study {name} could be measured.")
    return found


def _read_known(file: Path, models: Sequence[str]) -> dict[str, dict[str, Any]]:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    rows = map(json.loads, lines)
    return {row["model"]: row["found"] for row in rows if row["model"] in models}


def inferometer(*words: str, folder: Path = FOLDER, accepted: Sequence[int] = (0,)) -> str:
    """Return what a command of `inferometer` prints. Raises BenchError if it fails.

    Its database and its kept files lie in `folder`.
    """
    environment: Mapping[str, str] = {
        **os.environ,
        "XDG_DATA_HOME": str(folder),
        "INFEROMETER_DATABASE": str(folder / "layers.db"),
    }
    command = ("-m", "inferometer_cli", *words)
    return run_python(*command, folder=folder, environment=environment, accepted=accepted)


def run_python(
    *words: str,
    folder: Path = ROOT,
    environment: Mapping[str, str] | None = None,
    accepted: Sequence[int] = (0,),
) -> str:
    """Return what Python prints with these words. Raises BenchError if it fails."""
    done = subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        env=environment,
        cwd=folder,
        check=False,
    )
    if done.returncode not in accepted:
        last = (done.stderr.strip() or "it said nothing").splitlines()[-1]
        raise BenchError(f"python {' '.join(words)} ended with {done.returncode}: {last}")
    return done.stdout


def document(*words: str, folder: Path = FOLDER) -> dict[str, Any]:
    """Return the JSON that a command prints. Raises BenchError if it fails."""
    found: dict[str, Any] = json.loads(inferometer(*words, "--json", folder=folder))
    return found


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
