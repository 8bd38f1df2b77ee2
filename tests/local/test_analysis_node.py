"""The node benchmark as a command, and its memory bandwidth next to other programs' in turn."""

import json
import mmap
import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from inferometer_api.nodes.characteristics import NodeCharacteristics
from inferometer_api.statistics import geometric_mean
from inferometer_serving.node.samples import NotMeasurableError
from inferometer_serving.node.storage import cached_rate, cold_rate
from inferometer_serving.node.stream import LOOPS, array_bytes, measure_stream
from support.cluster.binaries import cache_folder
from support.inferometer_process import started
from support.judge_programs import HUGE_PAGES, compile_program, require_program
from support.judged_rates import MeasureRates, compare_in_turn
from support.requirements import cannot_run

_ROUNDS = 12
_REPEATS = 4
"""Few in a round: the bandwidth of a virtual machine wanders within seconds."""
_APART_BYTES = 8_000_512
"""As in the probe: arrays that are a power of two apart share lines of the caches."""
_FILE_BYTES, _CHUNK_BYTES = 128 << 20, 1 << 20
_CPU = min(os.sched_getaffinity(0))
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
    a = malloc((3 * n + 2 * APART) * sizeof *a), b = a + n + APART, c = b + n + APART;
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
_MAIN = r"""
#include <stdio.h>
#include <stdlib.h>
#include "stream_lib.h"
int main(int count, char **words) {
    double rates[STREAM_NRESULTS];
    stream_verbose = 0;
    stream_setmem(atol(words[1]));
    stream_init(malloc(stream_memsize()));
    stream_test(rates);
    for (int i = 0; i < STREAM_NRESULTS; i++) printf("%f\n", rates[i]);
    return 0;
}
"""


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the loops."""
    folder = tmp_path_factory.mktemp("stream")
    (folder / "loops.c").write_text(_PROGRAM)
    return compile_program(folder, "loops.c", "-fopenmp", f"-DAPART={_APART_BYTES // 8}L")


def _stream(cpus: Sequence[int], size_bytes: int) -> dict[str, float]:
    return {
        each.name.removeprefix("stream/"): each.best
        for each in measure_stream(cpus, size_bytes, _REPEATS)
    }


def _compiled_loops(judge: Path, cpus: Sequence[int], size_bytes: int) -> dict[str, float]:
    places = ",".join(f"{{{cpu}}}" for cpu in cpus)
    done = subprocess.run(
        [judge, str(size_bytes // 8), str(_REPEATS)],
        env={**os.environ, **HUGE_PAGES, "OMP_NUM_THREADS": str(len(cpus)), "OMP_PLACES": places},
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
def test_the_bandwidth_is_that_of_compiled_loops(judge: Path, threads: str) -> None:
    """Each loop is within 5 % of C, in turn, by the median of the ratios."""
    allowed = sorted(os.sched_getaffinity(0))
    cpus = allowed[:1] if threads == "one" else allowed
    size_bytes = array_bytes()
    theirs = partial(_compiled_loops, judge, cpus, size_bytes)
    _require_loops(partial(_stream, cpus, size_bytes), theirs)


def _require_loops(ours: MeasureRates, theirs: MeasureRates) -> None:
    found = compare_in_turn(ours, theirs, _ROUNDS)
    assert found.ratios.keys() == LOOPS.keys()
    found.require()


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile McCalpin's program, which the package numactl has as a library."""
    source = cache_folder() / "stream" / "stream_lib.c"
    if not source.exists():
        cannot_run(f"{source} is missing: tests/install-tools verify fetches it.")
    folder = tmp_path_factory.mktemp("original")
    (folder / "main.c").write_text(_MAIN)
    return compile_program(folder, "main.c", source, f"-I{source.parent}", "-lm")


def _original(program: Path, size_bytes: int) -> dict[str, float]:
    done = subprocess.run(
        ["taskset", "--cpu-list", str(_CPU), program, str(3 * (size_bytes + _APART_BYTES))],
        env={**os.environ, **HUGE_PAGES},
        capture_output=True,
        text=True,
        check=True,
    )
    rates = done.stdout.split()
    return {name: float(rate) * 1e6 for name, rate in zip(LOOPS, rates, strict=True)}


def test_one_thread_has_the_bandwidth_of_stream(original: Path) -> None:
    """Each loop is within 5 % of the original program in C."""
    size_bytes = array_bytes()
    ours, theirs = partial(_stream, [_CPU], size_bytes), partial(_original, original, size_bytes)
    _require_loops(ours, theirs)


@pytest.fixture
def file_of_random_bytes(tmp_path: Path) -> Path:
    """Write the file that both read, and read it once: the host may keep what was read."""
    file = tmp_path / "test_file.0"  # the only name that sysbench reads
    chunk = os.urandom(_CHUNK_BYTES)
    with file.open("wb") as opened:
        for _ in range(_FILE_BYTES // _CHUNK_BYTES):
            opened.write(chunk)
        os.fsync(opened.fileno())
    try:
        cold_rate(file)
    except NotMeasurableError as error:
        cannot_run(f"Reads cannot be measured here: {error}.")
    return file


@pytest.fixture
def one_cpu() -> Iterator[None]:
    """Let this process and its children run on one CPU only."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {_CPU})
    yield
    os.sched_setaffinity(0, before)


def _cached(file: Path) -> dict[str, float]:
    return {"pageCache/read": geometric_mean([cached_rate(file) for _ in range(20)])[0]}


def _reads(file: Path) -> dict[str, float]:
    return {"disk/read": cold_rate(file), **_cached(file)}


def _reads_of_fio(file: Path) -> dict[str, float]:
    """Return the rate of a read after the pages were evicted, and that of half a second of others.

    The first is a matter of milliseconds, to which fio rounds the time of a job, its start
    included: the time within the calls counts.
    """
    cold = _read_by_fio(file, "--invalidate=1")
    cached = _read_by_fio(file, "--invalidate=0", "--time_based", "--runtime=500ms")
    seconds = cold["total_ios"] * cold["lat_ns"]["mean"] / 1e9
    rate = cold["io_bytes"] / seconds
    return {"disk/read": rate, "pageCache/read": float(cached["bw_bytes"])}


def _read_by_fio(file: Path, *words: str) -> dict[str, Any]:
    """Return what fio says of one job.

    fio's buffer begins 16 bytes after a page, if it is not aligned. To there Zen 4 copies at less
    than half the rate. Its advice to the kernel doubles the read-ahead; loading a model gives none.
    """
    options = ("--rw=read", "--ioengine=sync", "--readonly", "--fadvise_hint=0")
    sizes = (f"--bs={_CHUNK_BYTES}", f"--size={_FILE_BYTES}", f"--iomem_align={mmap.PAGESIZE}")
    command = ("fio", "--name=read", f"--filename={file}", "--output-format=json")
    done = subprocess.run(
        [*command, *sizes, *options, *words],
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)["jobs"][0]["read"]
    return found


@pytest.mark.usefixtures("one_cpu")
def test_reads_are_as_fast_as_those_of_fio(file_of_random_bytes: Path) -> None:
    """Reads in chunks of 1 MiB, from the disk and from memory, are within 5 % of fio's."""
    require_program("fio")
    file = file_of_random_bytes
    compare_in_turn(partial(_reads, file), partial(_reads_of_fio, file), _ROUNDS).require()


def _reads_of_sysbench(folder: Path) -> dict[str, float]:
    sizes = (f"--file-total-size={_FILE_BYTES}", f"--file-block-size={_CHUNK_BYTES}")
    done = subprocess.run(
        ["sysbench", "fileio", "--file-num=1", *sizes, "--file-test-mode=seqrd", "--time=1", "run"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    rate = re.search(r"read, MiB/s: +([0-9.]+)", done.stdout)
    assert rate is not None, done.stdout
    return {"pageCache/read": float(rate[1]) * 2**20}


@pytest.mark.usefixtures("one_cpu")
def test_reads_from_memory_are_as_fast_as_those_of_sysbench(file_of_random_bytes: Path) -> None:
    """Reads from the page cache in chunks of 1 MiB are within 5 % of sysbench's."""
    require_program("sysbench")
    file = file_of_random_bytes
    judge = partial(_reads_of_sysbench, file.parent)
    compare_in_turn(partial(_cached, file), judge, _ROUNDS).require()


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
    wire = {(each.name, each.setting.get("protocol")): each for each in document.figures}
    for protocol in ("HTTP", "GRPC"):
        trip, rate = wire["loopback/roundTrip", protocol], wire["loopback/bandwidth", protocol]
        # Far more than a message of the round trip's size could have.
        assert rate.best > 2 * int(trip.setting["bytes"]) / (trip.best / 1e9)
    several = [each for each in document.figures if len(each.samples) > 1]
    assert all(
        each.low is not None and each.high is not None and each.low <= each.value <= each.high
        for each in several
    )
    assert "[1/" in ended.stderr
    assert database.exists()
