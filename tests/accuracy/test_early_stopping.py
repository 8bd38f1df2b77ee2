"""Early stopping is that of MLPerf LoadGen, to the last query.

LoadGen's source comes from the package index by pip, which checks its sum, and is kept in the
cache.
"""

import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from inferometer_loadgen.verdict.early_stopping import (
    max_overshoots,
    meets_bound,
    min_passing_queries,
    required_queries,
)
from support.cluster.binaries import cache_folder
from support.requirements import cannot_run

MOST = 1000
PERCENTILES = (50.0, 60.0, 75.0, 80.0, 85.0, 90.0, 92.5, 95.0, 97.0, 98.0, 99.0, 99.5, 99.8, 99.9)
_VERSION = "6.0.17"
_SHA256 = "a2e85d09e3cc0c606f89bfe1fbf97537c8b5b238ae0afbd923ad9c710fcf2ca8"
_PROGRAM = """
#include <cstdlib>
#include <iostream>
#include "early_stopping.h"

int main(int argc, char** argv) {
  const int64_t most = std::atoll(argv[1]);
  for (int each = 2; each < argc; ++each) {
    const double percentile = std::atof(argv[each]) / 100;
    mlperf::loadgen::MinPassingQueriesFinder remembering;
    for (int64_t t = 0; t <= most; ++t) {
      mlperf::loadgen::MinPassingQueriesFinder asked_once;
      const int64_t found = remembering(t, percentile, 0.0, 0.99);
      if (asked_once(t, percentile, 0.0, 0.99) != found) return 1;
      std::cout << found << '\\n';
    }
  }
}
"""


def _source() -> Path:
    """Return the folder of the unpacked sdist, fetched first if it is missing."""
    home = cache_folder() / "sdist"
    folder = home / f"mlcommons_loadgen-{_VERSION}"
    if not folder.exists():
        home.mkdir(parents=True, exist_ok=True)
        pinned = home / "requirements.txt"
        pinned.write_text(f"mlcommons-loadgen=={_VERSION} --hash=sha256:{_SHA256}\n")
        pip = (sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check")
        subprocess.run(
            (
                *pip,
                "--no-deps",
                "--no-binary",
                ":all:",
                "--require-hashes",
                "-r",
                pinned,
                "-d",
                home,
            ),
            check=True,
        )
        with tarfile.open(home / f"mlcommons_loadgen-{_VERSION}.tar.gz") as archive:
            archive.extractall(home, filter="data")
    return folder


def loadgens_min_passing_queries(
    folder: Path, percentiles: Sequence[float], most_overshoots: int
) -> list[list[int]]:
    """Return what LoadGen's finder returns for 0 to `most_overshoots`, by percentile.

    Built in `folder`. A finder with a memory and one used only once must agree.
    """
    program = folder / "table.cc"
    program.write_text(_PROGRAM)
    built = folder / "table"
    sources = (program, _source() / "early_stopping.cc")
    options = ("-O2", "-std=c++14", f"-I{_source()}", "-o", built)
    subprocess.run(("c++", *sources, *options), check=True)
    arguments = [str(most_overshoots), *map(repr, percentiles)]
    text = subprocess.run((built, *arguments), check=True, capture_output=True, text=True).stdout
    found = list(map(int, text.split()))
    size = most_overshoots + 1
    return [found[at * size : (at + 1) * size] for at in range(len(percentiles))]


def test_the_table_of_required_queries_is_loadgens(tmp_path: Path) -> None:
    """For 0 to 1,000 overshoots at every percentile our numbers are those of early_stopping.cc."""
    if shutil.which("c++") is None:
        cannot_run("MLPerf LoadGen cannot be compiled: there is no c++")
    theirs = loadgens_min_passing_queries(tmp_path, PERCENTILES, MOST)
    for percentile, expected in zip(PERCENTILES, theirs, strict=True):
        ours = [min_passing_queries(overshoots, percentile) for overshoots in range(MOST + 1)]
        assert ours == expected, f"P{percentile:g}"


@given(st.integers(0, 200_000), st.floats(50, 99.9))
def test_the_least_number_is_least(overshoots: int, percentile: float) -> None:
    """So many queries keep the bound and one fewer do not, and so many may then be beyond it."""
    queries = required_queries(overshoots, percentile)
    assert meets_bound(queries, overshoots, percentile)
    assert not meets_bound(queries - 1, overshoots, percentile)
    assert not meets_bound(queries, overshoots + 1, percentile)
    assert max_overshoots(queries, percentile) == overshoots
    fewer = max_overshoots(queries - 1, percentile)
    assert fewer == (overshoots - 1 if overshoots else None)
