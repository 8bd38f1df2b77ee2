"""The benchmark of this machine, in a process of its own."""

import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from inferometer_api.nodes.characteristics import NodeCharacteristics
from inferometer_cli.exits import FailedError
from inferometer_cli.local.child_process import ChildProcess, describe_exit
from inferometer_cli.local.server import with_last_output

_GRACE_SECONDS = 1.0


def measure_node(
    folder: Path | None, only: Sequence[str], report: Callable[[int, int, str], None]
) -> NodeCharacteristics:
    """Return what this machine gives.

    `report` gets the number of finished primitives, the number of all, and the next one's name.

    Raises FailedError if the benchmark ends early.
    """
    command = [
        *(sys.executable, "-m", "inferometer_serving.node"),
        *(() if folder is None else ("--folder", str(folder))),
        *(word for each in only for word in ("--only", each)),
    ]
    return asyncio.run(_measured(command, report))


async def _measured(
    command: Sequence[str], report: Callable[[int, int, str], None]
) -> NodeCharacteristics:
    child = await ChildProcess.start("node benchmark", command)
    last = b""
    try:
        async for line in child.lines():
            last = line
            event = json.loads(line)
            if event.get("event") == "progress":
                report(event["done"], event["total"], event["name"])
        code = await child.wait()
    finally:
        await child.stop(grace_seconds=_GRACE_SECONDS)
    if code:
        sentence = f"The node benchmark ended early ({describe_exit(code)})."
        raise FailedError(with_last_output(sentence, child))
    return NodeCharacteristics.read_json(last)
