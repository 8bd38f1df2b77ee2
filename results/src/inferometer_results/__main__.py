"""Runs the results service of a cluster: python -m inferometer_results."""

import sys

from inferometer_results.cluster.command import main

if __name__ == "__main__":
    sys.exit(main())
