"""How is a model fetched by a process of its own? `python -m inferometer_serving.fetcher`.

It prints one line of JSON: `{"path": ..., "sha256": ..., "name": ..., "sizeBytes": ...,
"inputs": [{"name": ..., "datatype": ..., "shape": [...]}]}`, and ends 0; `inputs` is null where the
file alone does not tell them. Else a sentence on standard error says why not: it ends 2 where the
model is refused, and 1 where the folder cannot take it.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import orjson

from inferometer_serving.errors import ModelRefusedError
from inferometer_serving.exits import EXIT_DONE, EXIT_FAILED, EXIT_REFUSED
from inferometer_serving.fetch import MAX_MODEL_BYTES, fetch


def main(arguments: Sequence[str] | None = None) -> int:
    """Fetch the model that a command line names, and return the exit code."""
    asked = _parser().parse_args(arguments)
    try:
        model = fetch(
            asked.uri,
            asked.destination,
            relative_to=asked.relative_to,
            sha256=asked.sha256,
            max_bytes=asked.max_model_bytes,
        )
    except ModelRefusedError as error:
        sys.stderr.write(f"refused: {error}\n")
        return EXIT_REFUSED
    except OSError as error:
        sys.stderr.write(
            f"failed: The model {asked.uri} could not be written to {asked.destination}: "
            f"{error.strerror or error}.\n"
        )
        return EXIT_FAILED
    told = {
        "path": str(model.path),
        "sha256": model.sha256,
        "name": model.name,
        "sizeBytes": model.size_bytes,
        "inputs": model.inputs,
    }
    sys.stdout.write(orjson.dumps(told).decode() + "\n")
    return EXIT_DONE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m inferometer_serving.fetcher",
        description="Fetch a model, bound it and check it, before a server is handed its path.",
    )
    parser.add_argument("--uri", required=True, help="zoo://NAME, file:PATH or https://...")
    parser.add_argument("--sha256", help="Checksum of the model; needed with https://.")
    parser.add_argument(
        "--destination",
        required=True,
        type=Path,
        metavar="FOLDER",
        help="Where models that are not files on this machine are written.",
    )
    parser.add_argument(
        "--relative-to",
        default=Path(),
        type=Path,
        metavar="FOLDER",
        help="Where a relative file: path begins.",
    )
    parser.add_argument(
        "--max-model-bytes",
        default=MAX_MODEL_BYTES,
        type=int,
        metavar="BYTES",
        help="Largest model taken, external data included.",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
