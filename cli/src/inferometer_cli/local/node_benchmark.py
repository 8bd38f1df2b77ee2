"""The benchmark of this machine, in a process of its own."""

import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from inferometer_api.nodes.characteristics import NodeCharacteristics
from inferometer_cli.local.child_process import output_document


def measure_node(
    folder: Path | None, only: Sequence[str], report: Callable[[int, int, str], None]
) -> NodeCharacteristics:
    """Return what this machine gives.

    `report` gets the number of finished primitives, the number of all, and the next one's name.

    Raises RefusedError if `only` names nothing, and FailedError if the benchmark ends early.
    """
    command = [
        *(sys.executable, "-m", "inferometer_serving.node"),
        *(() if folder is None else ("--folder", str(folder))),
        *(word for each in only for word in ("--only", each)),
    ]

    def watch(line: bytes) -> None:
        event = json.loads(line)
        if event.get("event") == "progress":
            report(event["done"], event["total"], event["name"])

    output = asyncio.run(output_document("node benchmark", command, watch))
    return NodeCharacteristics.read_json(output)
