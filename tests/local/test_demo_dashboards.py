"""`make demo-dashboards` measures, scrapes, prints addresses, and leaves nothing running."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from support.dashboards import ROOT
from support.inferometer_process import result_in, run_file
from support.onnx_models import identity, save

_DEADLINE_SECONDS = 120.0
_PROMETHEUS = re.compile(r"^Prometheus +(http://127\.0\.0\.1:\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Demo:
    """A demo that has ended."""

    code: int
    output: str
    results: Path


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """Have it measure a tiny model once, where no Grafana is installed."""
    folder = tmp_path_factory.mktemp("demo")
    save(identity(), folder / "model.onnx")
    file = run_file(folder, {"name": "one", "singleStream": {}})
    words = ["-m", "grafana.demo", "--once", "--run", str(file), "--seconds", "1"]
    path = os.pathsep.join(("tests", "."))
    done = subprocess.run(
        [sys.executable, *words, "--results", str(folder / "results")],
        cwd=ROOT,
        env={
            **{name: value for name, value in os.environ.items() if name != "GRAFANA_HOME"},
            "PYTHONPATH": path,
            "PATH": "/usr/bin:/bin",
            "TMPDIR": str(folder),
        },
        capture_output=True,
        text=True,
        timeout=_DEADLINE_SECONDS,
        check=False,
    )
    return Demo(done.returncode, done.stdout + done.stderr, folder / "results" / file.stem)


def test_it_measures_and_prometheus_has_seen_it(demo: Demo) -> None:
    """It ends well only when Prometheus knows what the finished run measured."""
    assert demo.code == 0, demo.output
    assert result_in(demo.results).outcome.state == "Complete"


def test_it_prints_where_to_look(demo: Demo) -> None:
    """Prometheus' address is printed, and that there is no Grafana."""
    assert _PROMETHEUS.search(demo.output), demo.output
    assert "Grafana     is not installed" in demo.output


def test_it_leaves_nothing(demo: Demo) -> None:
    """No process of it is left, and nothing of its own in the folder for temporary files."""
    left = [
        process.info["cmdline"]
        for process in psutil.process_iter(["cmdline"])
        if str(demo.results.parents[1]) in " ".join(process.info["cmdline"] or ())
    ]
    assert left == []
    assert list(demo.results.parents[1].glob("inferometer-*")) == []
