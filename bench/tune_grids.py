"""Records grids of server settings on this machine, which tests replay the search of tune on.

    .venv/bin/python bench/tune_grids.py     # 20 models x 27 settings x 2 trials: about 90 minutes

Each trial is one of `inferometer tune`: a server of its own, and three numbers of closed-loop
clients. Every trial is a row of the CSV file, written at once: the command can be interrupted at
any time, and continues after what is recorded. Trials that other processes disturbed are no rows;
called again, it repeats them.
"""

import argparse
import csv
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

# bench/ is a folder of scripts, not an installed package; it shares modules with tests/
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(1, str(Path(__file__).resolve().parents[1] / "tests"))

from bench.history_record import read_rows
from bench.processes import ROOT, BenchError, usable_cores

from inferometer_analysis.tune.candidates import Candidate, candidates
from inferometer_api.spec.resolve import fill_defaults
from inferometer_cli.exits import StopSignal, deferred_signals
from inferometer_cli.local.measurement import measure
from inferometer_cli.local.tuning import is_disturbed, rate_within, trial_fields
from inferometer_cli.run_file import parse_run_text

CSV = ROOT / "bench" / "data" / "tune_grids.csv"
COLUMNS = ("model", "settings", "trial", "qps")
TRIALS = 2
BOUND_MICROSECONDS = 50_000
_ENGINES = (("OnnxRuntime", "Default"), ("OpenVino", "FP32"), ("OpenVino", "BF16"))
MODELS = (
    *(
        f"classification/{name}"
        for name in (
            *("convnext_atto", "edgenext_small", "efficientnet_b0", "ghostnet_100", "googlenet"),
            *("mnasnet1_0", "mobilenet_v2", "mobilenet_v3_large", "mobilenet_v3_small"),
            *("mobilenetv4_conv_small", "regnet_x_800mf", "regnet_y_400mf", "repvgg_a0"),
            *("resnet18", "shufflenet_v2_x0_5", "shufflenet_v2_x1_0", "squeezenet1_0"),
            "squeezenet1_1",
        )
    ),
    "detection/ssdlite320_mobilenet_v3_large",
    "text/minilm_l6",
)
"""20 models that reply within the bound at some setting."""


def read_grids(path: Path = CSV) -> dict[str, dict[str, list[float]]]:
    """Return the rates of each model's settings in its trials; whole grids only."""
    found: dict[str, dict[str, list[float]]] = {}
    for row in read_rows(path):
        rates = found.setdefault(row["model"], {}).setdefault(row["settings"], [])
        rates.append(float(row["qps"]))
    return {
        model: grid
        for model, grid in found.items()
        if all(len(rates) == TRIALS for rates in grid.values())
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Record what is not yet recorded; return the exit code."""
    parser = argparse.ArgumentParser(description="Record the grids of 20 models.")
    parser.add_argument("--csv", type=Path, default=CSV)
    options = parser.parse_args(arguments)
    with deferred_signals() as ending:
        try:
            _record(options.csv, ending)
        except BenchError as error:
            print(f"bench: {error}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            return 130
    return 0


def _record(path: Path, ending: StopSignal) -> None:
    """Append the trials that the file lacks, if nothing disturbs them."""
    grid = candidates(len(usable_cores()), _ENGINES, [4, 8], delay_us=2000, most=48)
    rows = read_rows(path)
    recorded = {(row["model"], row["settings"], int(row["trial"])) for row in rows}
    missing = [
        (model, settings, trial)
        for model, settings, trial in _trials(grid)
        if (model, settings.label, trial) not in recorded
    ]
    began = time.monotonic()
    with path.open("a", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if not rows:
            writer.writeheader()
        for done, (model, settings, trial) in enumerate(missing, 1):
            rate = _rate(model, settings, trial, ending)
            if rate is not None:
                writer.writerow(
                    dict(zip(COLUMNS, (model, settings.label, trial, f"{rate:.2f}"), strict=True))
                )
                file.flush()
            left = (time.monotonic() - began) / done * (len(missing) - done)
            words = "disturbed" if rate is None else f"{rate:.1f}/s"
            print(
                f"{model}, {settings.label}, {trial}: {words}; {left / 60:.0f} min left", flush=True
            )


def _trials(grid: Sequence[Candidate]) -> Iterator[tuple[str, Candidate, int]]:
    """Yield model, settings and number; those of a model one after the other, in rounds."""
    for model in MODELS:
        for trial in range(1, TRIALS + 1):
            for each in np.random.default_rng(trial).permutation(len(grid)):
                yield model, grid[int(each)], trial


def _rate(model: str, settings: Candidate, seed: int, ending: StopSignal) -> float | None:
    """Return the highest rate within the bound, 0 without one; None if a trial was disturbed."""
    run = parse_run_text(yaml.safe_dump(_run(model, settings, seed)), source=model)
    document = measure(fill_defaults(run), ROOT, ending, watch=lambda *_: None)
    if document.outcome.state in {"Interrupted", "Terminated"}:
        raise KeyboardInterrupt
    if document.outcome.state != "Complete":
        raise BenchError(f"{model}, {settings.label}: {document.outcome.message}")
    if any(map(is_disturbed, document.scenarios)):
        return None
    steps = (step for each in document.scenarios for step in each.steps)
    return max(rate_within(step, BOUND_MICROSECONDS) for step in steps)


def _run(model: str, settings: Candidate, seed: int) -> dict[str, Any]:
    return {
        "apiVersion": "inferometer.dev/v1alpha1",
        "kind": "BenchmarkRun",
        "metadata": {"name": "trial"},
        "spec": {
            "model": {"uri": f"zoo://{model}"},
            "load": {"connections": max(settings.trial_clients), "seed": seed},
            "telemetry": {"power": "Disabled"},
            **trial_fields(settings, seconds=1),
        },
    }


if __name__ == "__main__":
    sys.exit(main())
