"""The measurement of a model's forms, in processes of its own."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from inferometer_cli.exits import RefusedError
from inferometer_cli.local.child_process import output_document
from inferometer_models.errors import ModelRefusedError
from inferometer_models.graph_file import read_graph


def measure_forms(model: Path, folder: Path, *, threads: int, servers: int) -> dict[str, Any]:
    """Return the document of `python -m inferometer_serving.model_forms`, and write the forms.

    Raises RefusedError if the file is no whole ONNX model, FailedError if the measurement ends
    early.
    """
    try:
        read_graph(model, max_bytes=sys.maxsize)
    except ModelRefusedError as error:
        raise RefusedError(str(error)) from error
    command = [
        *(sys.executable, "-m", "inferometer_serving.model_forms", str(model)),
        *("--folder", str(folder), "--threads", str(threads), "--servers", str(servers)),
    ]
    output = asyncio.run(output_document("measurement of the model's forms", command))
    document: dict[str, Any] = json.loads(output)
    return document
