"""`python -m inferometer_serving.fetcher`: brings a model to this machine before a server starts.

A process of its own, so that it can be ended at any moment and, in a cluster, be a pod's init
container. It prints one JSON line: path, sha256 and name of the model.
"""

import argparse
import json
import sys
from pathlib import Path

from inferometer_serving.errors import ModelRefusedError
from inferometer_serving.fetch import MAX_MODEL_BYTES, fetch

FAILED, REFUSED = 1, 2


def main() -> int:
    """Fetch what the command line asks for; return the exit code."""
    asked = _parser().parse_args()
    try:
        model = fetch(
            asked.uri,
            asked.destination,
            relative_to=asked.relative_to,
            sha256=asked.sha256,
            max_bytes=asked.max_model_bytes,
        )
    except ModelRefusedError as refusal:
        print(refusal, file=sys.stderr)  # noqa: T201 - a sentence for whoever started it
        return REFUSED
    except OSError as error:
        reason = error.strerror or error
        print(  # noqa: T201 - a sentence for whoever started it
            f"The model {asked.uri} could not be written to {asked.destination}: {reason}.",
            file=sys.stderr,
        )
        return FAILED
    found = {"path": str(model.path), "sha256": model.sha256, "name": model.name}
    print(json.dumps(found), flush=True)  # noqa: T201 - the answer is a line of output
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m inferometer_serving.fetcher")
    parser.add_argument("--uri", required=True, help="Address of the model.")
    parser.add_argument("--sha256", help="Checksum that the file must have.")
    parser.add_argument("--destination", type=Path, required=True, help="Folder it is written to.")
    parser.add_argument("--relative-to", type=Path, default=Path(), help="Where file: begins.")
    parser.add_argument("--max-model-bytes", type=int, default=MAX_MODEL_BYTES)
    return parser


if __name__ == "__main__":
    sys.exit(main())
