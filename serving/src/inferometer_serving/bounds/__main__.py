"""The command `python -m inferometer_serving.bounds`, which `inferometer bound` starts."""

import sys

from inferometer_serving.bounds.benchmark import main

if __name__ == "__main__":
    sys.exit(main())
