"""The node benchmark as a command, and its memory bandwidth next to the loops of STREAM in C."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import pytest

from inferometer_api.nodes.characteristics import NodeCharacteristics
from inferometer_serving.node.stream import LOOPS, array_bytes, measure_stream
from support.inferometer_process import started
from support.requirements import cannot_run

_ROUNDS = 5
_REPEATS = 10
_TOLERANCE = 0.05
_PROGRAM = r"""
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
static double *a, *b, *c;
static void run(int which, long n) {
    long i;
    switch (which) {
    case 0:
#pragma omp parallel for
        for (i = 0; i < n; i++) c[i] = a[i];
        break;
    case 1:
#pragma omp parallel for
        for (i = 0; i < n; i++) b[i] = 3.0 * c[i];
        break;
    case 2:
#pragma omp parallel for
        for (i = 0; i < n; i++) c[i] = a[i] + b[i];
        break;
    default:
#pragma omp parallel for
        for (i = 0; i < n; i++) a[i] = b[i] + 3.0 * c[i];
    }
}
int main(int count, char **words) {
    long n = atol(words[1]), i;
    int repeats = atoi(words[2]);
    a = malloc(n * sizeof *a), b = malloc(n * sizeof *b), c = malloc(n * sizeof *c);
#pragma omp parallel for
    for (i = 0; i < n; i++) a[i] = 1.0, b[i] = 2.0, c[i] = 0.0;
    double best[4] = {1e9, 1e9, 1e9, 1e9};
    for (int k = 0; k <= repeats; k++)
        for (int which = 0; which < 4; which++) {
            double began = omp_get_wtime();
            run(which, n);
            double taken = omp_get_wtime() - began;
            if (k && taken < best[which]) best[which] = taken;
        }
    printf("%.9f %.9f %.9f %.9f %g\n", best[0], best[1], best[2], best[3], a[n / 2]);
    return 0;
}
"""
"""The four loops as the rules of STREAM define them; the compiler is the judge."""


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the loops."""
    compiler = shutil.which("gcc")
    if compiler is None:
        cannot_run("gcc is not installed.")
    folder = tmp_path_factory.mktemp("stream")
    (folder / "loops.c").write_text(_PROGRAM)
    command = [compiler, "-O3", "-march=native", "-fopenmp", "loops.c", "-o", "loops"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "loops"


def _judged(judge: Path, cpus: Sequence[int], size_bytes: int) -> dict[str, float]:
    places = ",".join(f"{{{cpu}}}" for cpu in cpus)
    done = subprocess.run(
        [judge, str(size_bytes // 8), str(_REPEATS)],
        env={**os.environ, "OMP_NUM_THREADS": str(len(cpus)), "OMP_PLACES": places},
        capture_output=True,
        text=True,
        check=True,
    )
    seconds = [float(each) for each in done.stdout.split()]
    moved = size_bytes // 8
    return {
        name: each * moved / taken
        for (name, each), taken in zip(LOOPS.items(), seconds[:4], strict=True)
    }


@pytest.mark.parametrize("threads", ["one", "all"])
def test_the_bandwidth_is_that_of_compiled_loops(
    judge: Path, threads: str, require_quiet: Callable[[], None]
) -> None:
    """copy, scale, add and triad are within 5 % of C, in turn, by the median of the ratios."""
    allowed = sorted(os.sched_getaffinity(0))
    cpus = allowed[:1] if threads == "one" else allowed
    size_bytes = array_bytes()
    ratios: dict[str, list[float]] = {name: [] for name in LOOPS}
    for _ in range(_ROUNDS):
        ours = {
            each.name.removeprefix("stream/"): each.best
            for each in measure_stream(cpus, size_bytes, _REPEATS)
        }
        theirs = _judged(judge, cpus, size_bytes)
        for name in LOOPS:
            ratios[name].append(ours[name] / theirs[name])
    require_quiet()
    found = {name: median(each) for name, each in ratios.items()}
    assert all(abs(each - 1) <= _TOLERANCE for each in found.values()), found


def test_the_command_measures_prints_and_keeps(tmp_path: Path) -> None:
    """All primitives but those that this machine refuses have figures with intervals, in JSON."""
    database = tmp_path / "results.db"
    words = ("node", "--format", "json", "--folder", str(tmp_path), "--database", str(database))
    with started(tmp_path, *words) as process:
        ended = process.ended(300)
    assert ended.code == 0, ended.stderr
    document = NodeCharacteristics.model_validate(json.loads(ended.stdout))
    names = {each.name for each in document.figures}
    assert names >= {
        *(f"stream/{name}" for name in LOOPS),
        "memcpy",
        "pageFault",
        "loopback/roundTrip",
        "loopback/bandwidth",
        "timer/wakeUpLag",
        "jitter/share",
        "gemm",
        "steal",
    }
    several = [each for each in document.figures if len(each.samples) > 1]
    assert all(
        each.low is not None and each.high is not None and each.low <= each.value <= each.high
        for each in several
    )
    assert "[1/" in ended.stderr
    assert database.exists()
