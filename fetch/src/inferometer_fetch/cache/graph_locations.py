"""Prints the locations of the external data of the ONNX model on standard input, as JSON."""

import json
import sys
from pathlib import Path

from inferometer_models.errors import ModelRefusedError
from inferometer_models.graph_file import external_files

_MODEL = Path("/proc/self/fd/0")


def main() -> int:
    """Print the locations relative to the model; return the exit code."""
    try:
        files = external_files(_MODEL)
    except ModelRefusedError as error:
        sys.stderr.write(f"{error}\n".replace(str(_MODEL), "of the volume"))
        return 2
    folder = _MODEL.parent.resolve()
    sys.stdout.write(json.dumps([file.relative_to(folder).as_posix() for file in files]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
