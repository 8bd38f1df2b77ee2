"""The measurement of a model's forms, in processes of its own."""

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from inferometer_cli.exits import FailedError
from inferometer_cli.local.child_process import ChildProcess, describe_exit
from inferometer_cli.local.server import with_last_output

_GRACE_SECONDS = 1.0


def measure_forms(model: Path, folder: Path, *, threads: int, servers: int) -> dict[str, Any]:
    """Return the document of `python -m inferometer_serving.model_forms`, and write the forms.

    Raises FailedError if the measurement ends early.
    """
    command = [
        *(sys.executable, "-m", "inferometer_serving.model_forms", str(model)),
        *("--folder", str(folder), "--threads", str(threads), "--servers", str(servers)),
    ]
    return asyncio.run(_measured(command))


async def _measured(command: Sequence[str]) -> dict[str, Any]:
    child = await ChildProcess.start("measurement of forms", command)
    last = b""
    try:
        async for line in child.lines():
            last = line
        code = await child.wait()
    finally:
        await child.stop(grace_seconds=_GRACE_SECONDS)
    if code:
        sentence = f"The measurement of the model's forms ended early ({describe_exit(code)})."
        raise FailedError(with_last_output(sentence, child))
    document: dict[str, Any] = json.loads(last)
    return document
