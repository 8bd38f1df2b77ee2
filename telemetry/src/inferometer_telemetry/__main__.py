"""Which process is a node agent?"""

import sys


def main() -> int:
    """Serve samples until told to end; return the exit code."""
    raise NotImplementedError


if __name__ == "__main__":
    sys.exit(main())
