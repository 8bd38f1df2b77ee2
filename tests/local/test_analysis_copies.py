"""The copies of the node benchmark next to those of programs in C, in turn."""

import os
import re
import subprocess
from functools import partial
from pathlib import Path

import pytest

from inferometer_serving.node.host_memory import copy_rates, memory_probes
from inferometer_serving.node.machine import numa_cpus
from support.judge_programs import HUGE_PAGES, compile_program, require_program
from support.judged_rates import compare_in_turn

_ROUNDS = 12
_COPIED_BYTES = 256 << 20
_SMALL_COPIES_BYTES = (1 << 12, 1 << 16)
_COPIES = r"""
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}
static char *memory(size_t size, int value) {
    char *found = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memset(found, value, size);
}
int main(int count, char **words) {
    for (int k = 1; k < count; k++) {
        size_t size = atol(words[k]);
        char *origin = memory(size, 2), *destination = memory(size, 1);
        double best = 0;
        for (int repeat = 0; repeat < 5; repeat++) {
            double taken = 0;
            long times = 1;
            for (;; times *= 2) {
                double began = now();
                for (long i = 0; i < times; i++) {
                    memcpy(destination, origin, size);
                    __asm__ volatile("" : : "r"(destination) : "memory");
                }
                taken = now() - began;
                if (taken > 0.02) break;
            }
            if (times * size / taken > best) best = times * size / taken;
        }
        printf("%f\n", best);
    }
    return 0;
}
"""
"""Copies by the C library as the probe repeats them, in C."""


def _copy() -> dict[str, float]:
    probe = next(iter(memory_probes()))  # within the first NUMA node
    figures = {each.setting["bytes"]: each for each in probe.measure()}
    return {"memcpy": figures[str(_COPIED_BYTES)].best}


def _copy_of_mbw() -> dict[str, float]:
    """Return the best copy by the C library.

    It is one block of mbw's third method. Its first is not always memcpy: in Debian's mbw 1.2.2 the
    names MEMCPY and DUMB are interchanged, so that MEMCPY is a loop over words.
    """
    words = ("mbw", "-q", "-t2", f"-b{_COPIED_BYTES}", "-n5", str(_COPIED_BYTES >> 20))
    cpu = min(next(iter(numa_cpus().values())))
    done = subprocess.run(
        ["taskset", "--cpu-list", str(cpu), *words],
        env={**os.environ, **HUGE_PAGES},
        capture_output=True,
        text=True,
        check=True,
    )
    rates = re.findall(r"^\d+\tMethod: MCBLOCK\t.*Copy: ([0-9.]+) MiB/s", done.stdout, re.MULTILINE)
    return {"memcpy": max(float(each) for each in rates) * 2**20}


def test_a_copy_is_as_fast_as_that_of_mbw() -> None:
    """The best copy of 256 MiB within a NUMA node is within 5 % of mbw's, which is in C."""
    require_program("mbw")
    compare_in_turn(_copy, _copy_of_mbw, _ROUNDS).require()


@pytest.fixture(scope="module")
def compiled_copies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile a loop of copies."""
    folder = tmp_path_factory.mktemp("copies")
    (folder / "copies.c").write_text(_COPIES)
    return compile_program(folder, "copies.c")


def _small_copies() -> dict[str, float]:
    cpus = next(iter(numa_cpus().values()))
    return {str(size): max(copy_rates(size, cpus, cpus)) for size in _SMALL_COPIES_BYTES}


def _compiled_small_copies(program: Path) -> dict[str, float]:
    cpu = min(next(iter(numa_cpus().values())))
    done = subprocess.run(
        ["taskset", "--cpu-list", str(cpu), program, *map(str, _SMALL_COPIES_BYTES)],
        capture_output=True,
        text=True,
        check=True,
    )
    rates = map(float, done.stdout.split())
    return dict(zip(map(str, _SMALL_COPIES_BYTES), rates, strict=True))


def test_small_copies_are_as_fast_as_those_of_a_compiled_loop(compiled_copies: Path) -> None:
    """Copies that fit in a CPU's own caches are within 5 % of a loop in C: no interpreter."""
    theirs = partial(_compiled_small_copies, compiled_copies)
    found = compare_in_turn(_small_copies, theirs, _ROUNDS)
    assert found.ratios.keys() == {"4096", "65536"}
    found.require()
