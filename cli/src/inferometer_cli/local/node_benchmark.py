"""The benchmark of this machine, in a process of its own."""

import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from inferometer_api.nodes.characteristics import NodeCharacteristics
from inferometer_api.nodes.wire_rates import (
    LOOPBACK,
    WireRates,
    is_selected,
    wire_probe_command,
    wire_server_command,
    with_wire_rates,
)
from inferometer_api.timestamps import format_time
from inferometer_cli.exits import FailedError
from inferometer_cli.local.child_process import first_line, output_document, start_child

_HOST = "127.0.0.1"
Report = Callable[[int, int, str], None]
"""Gets the number of finished primitives, the number of all, and the next one's name."""


class EndedEarlyError(FailedError):
    """The benchmark ended before its end; `document` has what it had measured."""

    def __init__(self, message: str, document: NodeCharacteristics) -> None:
        super().__init__(message)
        self.document = document


def measure_node(folder: Path | None, only: Sequence[str], report: Report) -> NodeCharacteristics:
    """Return what this machine gives: what one process measures alone, then the loopback.

    Raises RefusedError if `only` names nothing, EndedEarlyError if the benchmark ends after the
    first of its figures, and FailedError if it ends before.
    """
    command = [
        *(sys.executable, "-m", "inferometer_serving.node"),
        *(() if folder is None else ("--folder", str(folder))),
        *(word for each in only for word in ("--only", each)),
    ]
    has_loopback = is_selected(LOOPBACK, only)
    events = _Events(report, more=int(has_loopback))
    try:
        output = asyncio.run(output_document("node benchmark", command, events.take))
    except FailedError as error:
        if events.figures:
            raise EndedEarlyError(str(error), events.partial_document()) from error
        raise
    document = NodeCharacteristics.read_json(output)
    if not has_loopback:
        return document
    report(events.total, events.total + 1, LOOPBACK)
    return with_wire_rates(document, asyncio.run(_measure_loopback()))


async def _measure_loopback() -> WireRates:
    """Return what our load generator measures to our server, both on this machine."""
    async with AsyncExitStack() as stack:
        try:
            server = await start_child(
                "server", wire_server_command(sys.executable, host=_HOST), stack
            )
            ports = json.loads(await first_line(server))
            at = (_HOST, ports["httpPort"], ports["grpcPort"])
            command = wire_probe_command(sys.executable, {LOOPBACK: at}, {})
            return WireRates.read_json(await output_document("load generator", command))
        except FailedError as error:
            why = " ".join(str(error).split()).rstrip(".")
            return WireRates(figures=[], unavailable={LOOPBACK: why})


@dataclass(slots=True)
class _Events:
    """What the benchmark has reported so far."""

    report: Report
    more: int
    """Primitives that are measured after those of the process."""
    total: int = 0
    begun: dict[str, Any] = field(default_factory=dict)
    """The document without figures."""
    left: list[str] = field(default_factory=list)
    """Primitives that have not ended, in their order."""
    figures: list[dict[str, Any]] = field(default_factory=list)
    unavailable: dict[str, str] = field(default_factory=dict)

    def take(self, line: bytes) -> None:
        event = json.loads(line)
        match event.get("event"):
            case "began":
                self.begun, self.left = event["document"], event["names"]
                self.total = len(self.left)
            case "progress":
                self.report(event["done"], event["total"] + self.more, event["name"])
            case "measured":
                self.left.remove(event["name"])
                self.figures += event["figures"]
                self.unavailable |= event["unavailable"]
            case _:
                pass

    def partial_document(self) -> NodeCharacteristics:
        """Return the document of a benchmark that ended while the first that is left ran."""
        later = [*self.left[1:], *([LOOPBACK] if self.more else [])]
        unavailable = dict.fromkeys(later, "the benchmark ended before it")
        unavailable |= dict.fromkeys(self.left[:1], "the benchmark ended while this was measured")
        return NodeCharacteristics.model_validate(
            {
                **self.begun,
                "finishedAt": format_time(datetime.now(UTC)),
                "figures": self.figures,
                "unavailable": self.unavailable | unavailable,
                "cautions": ["The benchmark ended early: some figures are missing."],
            }
        )
