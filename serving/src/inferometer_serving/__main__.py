"""The server's command line: `python -m inferometer_serving --model model.onnx`."""

import argparse
import gc
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import cast

gc.disable()  # until the model is loaded: what is imported stays
# structlog imports rich for a console that this process does not have.
sys.modules.setdefault("rich", cast("ModuleType", None))

from inferometer_serving.command_line import add_options, parse, serve_options  # noqa: E402 - the same
from inferometer_serving.main import serve  # noqa: E402 - slower before


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve the model that a command line names, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m inferometer_serving",
        description="Serve one ONNX model over the Open Inference Protocol, HTTP and gRPC.",
    )
    parser.add_argument("--model", required=True, type=Path, metavar="PATH", help="An ONNX file.")
    add_options(parser)
    values = vars(parse(parser, arguments))
    model = values["model"]
    return serve(serve_options(model, values, default_name=model.stem))


if __name__ == "__main__":
    sys.exit(main())
