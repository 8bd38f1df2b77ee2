"""Finds MLPerf LoadGen's source, and computes its early stopping.

The sdist comes from the package index by pip, which checks its sum, and is kept in the cache.
"""

import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

from support.cluster.binaries import cache_folder

VERSION = "6.0.17"
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


def compiler() -> str | None:
    """Return the C++ compiler of this machine; None where there is none."""
    return shutil.which("c++")


def source() -> Path:
    """Return the folder of the unpacked sdist, fetched first where it is missing."""
    home = cache_folder() / "sdist"
    folder = home / f"mlcommons_loadgen-{VERSION}"
    if not folder.exists():
        home.mkdir(parents=True, exist_ok=True)
        pinned = home / "requirements.txt"
        pinned.write_text(f"mlcommons-loadgen=={VERSION} --hash=sha256:{_SHA256}\n")
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
        with tarfile.open(home / f"mlcommons_loadgen-{VERSION}.tar.gz") as archive:
            archive.extractall(home, filter="data")
    return folder


def min_passing_queries(
    folder: Path, percentiles: Sequence[float], most_overshoots: int
) -> list[list[int]]:
    """Return what LoadGen's finder returns for 0 to `most_overshoots`, by percentile.

    Built in `folder`. A finder with a memory and one used only once must agree.
    """
    program = folder / "table.cc"
    program.write_text(_PROGRAM)
    built = folder / "table"
    sources = (program, source() / "early_stopping.cc")
    options = ("-O2", "-std=c++14", f"-I{source()}", "-o", built)
    subprocess.run(("c++", *sources, *options), check=True)
    asked = [str(most_overshoots), *map(repr, percentiles)]
    text = subprocess.run((built, *asked), check=True, capture_output=True, text=True).stdout
    found = list(map(int, text.split()))
    size = most_overshoots + 1
    return [found[at * size : (at + 1) * size] for at in range(len(percentiles))]
