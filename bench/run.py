"""Measures Inferometer next to its peers: `python bench/run.py`."""

import sys
from pathlib import Path

# bench/ is a folder of scripts, not an installed package; the cluster
# is that of tests/
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(1, str(Path(__file__).resolve().parents[1] / "tests"))

from bench.suite import main

if __name__ == "__main__":
    sys.exit(main())
