"""The measurement of a model's forms, in processes of its own."""

import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import Any

from inferometer_cli.exits import ExitCode, RefusedError, StoppedError, StopSignal, deferred_signals
from inferometer_cli.local.child_process import output_document
from inferometer_models.errors import ModelRefusedError
from inferometer_models.graph_file import read_graph


def measure_forms(model: Path, folder: Path, *, threads: int, servers: int) -> dict[str, Any]:
    """Return the document of `python -m inferometer_serving.model_forms`, and write the forms.

    Raises RefusedError if the file is no whole ONNX model, FailedError if the measurement ends
    early, and StoppedError if a signal ends it.
    """
    try:
        read_graph(model, max_bytes=sys.maxsize)
    except ModelRefusedError as error:
        raise RefusedError(str(error)) from error
    command = [
        *(sys.executable, "-m", "inferometer_serving.model_forms", str(model)),
        *("--folder", str(folder), "--threads", str(threads), "--servers", str(servers)),
    ]
    with deferred_signals() as stop:
        try:
            output = asyncio.run(_output(command, stop))
        except asyncio.CancelledError:
            output = b""
    if stop.signal is not None:
        raise StoppedError(stop.exit_code or ExitCode.TERMINATED)
    document: dict[str, Any] = json.loads(output)
    return document


async def _output(command: list[str], stop: StopSignal) -> bytes:
    """Return what a command prints; a signal cancels its task alone.

    The tasks that read its log go on until the pipe closes, which its own children hold: an event
    loop that closes before the pipe does prints a traceback.
    """
    loop = asyncio.get_running_loop()
    document = output_document("measurement of the model's forms", command)
    task = asyncio.ensure_future(document)

    def cancel(_: signal.Signals) -> None:
        loop.call_soon_threadsafe(task.cancel)

    stop.notify(cancel)
    return await task
