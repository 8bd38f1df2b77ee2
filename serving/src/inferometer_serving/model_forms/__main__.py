"""Measures the forms of a model: `python -m inferometer_serving.model_forms MODEL --folder FOLDER`.

It writes the forms below the folder, and prints one line of JSON: `{"machineKind": ..., "servers":
N, "forms": [...], "unavailable": {...}, "sharing": {...}}`. Each form has `name`, `model`,
`prepacking`, `graphOptimization`, `files`, `fileBytes`, the medians `loadMilliseconds`,
`firstMilliseconds` and `steadyMilliseconds` of fresh processes with the page cache warm, the least
and the most of the latter (`steadyRangeMilliseconds`),
`togetherMilliseconds` (the slowest load of N at once), and `addedBytes`: what each further server
of the model takes (PSS), less what it takes for a tiny one. `unavailable` has the reason for each
form that the model cannot have. `sharing` has the constants of `measure.sharing_constants`.
"""

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from inferometer_serving.model.prepacked_weights import machine_kind
from inferometer_serving.model_forms.forms import unavailable_forms, write_forms
from inferometer_serving.model_forms.measure import (
    Probing,
    added_bytes,
    open_alone,
    sharing_constants,
    write_tiny,
)


def main() -> int:
    """Write and measure the forms; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m inferometer_serving.model_forms")
    parser.add_argument("model", type=Path)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--servers", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--runs", type=int, default=20)
    given = parser.parse_args()
    forms = write_forms(given.model, given.folder, threads=given.threads)
    probing = Probing(given.threads, given.runs, given.servers)
    with tempfile.TemporaryDirectory() as folder:
        base_bytes, _ = added_bytes(write_tiny(Path(folder)), probing)
    # The forms take turns, so that what disturbs the machine disturbs all alike.
    rounds = [[open_alone(form, probing) for form in forms] for _ in range(given.repeats + 1)][1:]
    found = []
    for index, form in enumerate(forms):
        added, together = added_bytes(form, probing)
        alone = [each[index] for each in rounds]
        medians = {name: statistics.median(each[name] for each in alone) for name in alone[0]}
        found.append(
            {
                "name": form.name,
                "model": str(form.model),
                "prepacking": form.prepacking,
                "graphOptimization": form.graph_optimization,
                "files": sum(1 for _ in form.model.parent.iterdir()),
                "fileBytes": sum(each.stat().st_size for each in form.model.parent.iterdir()),
                **medians,
                "steadyRangeMilliseconds": _range([each["steadyMilliseconds"] for each in alone]),
                "togetherMilliseconds": together,
                "addedBytes": max(0.0, added - base_bytes),
            }
        )
    document = {
        "machineKind": machine_kind(),
        "servers": given.servers,
        "forms": found,
        "unavailable": unavailable_forms(forms),
        "sharing": sharing_constants(forms[0], given.folder),
    }
    sys.stdout.write(json.dumps(document) + "\n")
    return 0


def _range(values: Sequence[float]) -> list[float]:
    return [min(values), max(values)]


if __name__ == "__main__":
    sys.exit(main())
