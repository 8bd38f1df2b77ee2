"""The measurement of the load generator's wire between two places: targets, and document."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal

from pydantic import Field

from inferometer_api.document import Document
from inferometer_api.nodes.characteristics import NodeCharacteristics, NodeFigure

LOOPBACK, POD_TO_POD = "loopback", "podToPod"
WIRE_FIGURES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {name: (f"{name}/roundTrip", f"{name}/bandwidth") for name in (LOOPBACK, POD_TO_POD)}
)
"""Names of the figures, by the primitive that measures them."""
WIRE_MODEL = "identity"
"""Name of the model that the server returns tensors with."""
WIRE_INPUT, WIRE_OUTPUT, WIRE_DATATYPE = "x", "y", "UINT8"
"""Its one input and its one output, of one open axis: an element is a byte."""
WIRE_KIND = "WireRates"


class WireRates(Document):
    """Round trips and bandwidth between the load generator and servers."""

    kind: Literal["WireRates"] = "WireRates"
    figures: list[NodeFigure]
    unavailable: dict[str, str] = Field(default_factory=dict)
    """What was not measured, and why: a clause for each name."""


def is_selected(primitive: str, only: Sequence[str]) -> bool:
    """Return whether a primitive of the wire is to be measured, where `only` has begins."""
    names = (primitive, *WIRE_FIGURES[primitive])
    return not only or any(name.startswith(begin) for name in names for begin in only)


def with_wire_rates(document: NodeCharacteristics, rates: WireRates) -> NodeCharacteristics:
    """Return a document with the figures of the wire in addition to its own."""
    return document.model_copy(
        update={
            "figures": [*document.figures, *rates.figures],
            "unavailable": document.unavailable | rates.unavailable,
        }
    )


def wire_probe_command(
    python: str, targets: Mapping[str, tuple[str, int, int]], unavailable: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the command that measures, and prints WireRates as its last line.

    `targets` has host, HTTP port and gRPC port of a server by the primitive's name; `unavailable`
    why there is none.
    """
    return (
        *(python, "-m", "inferometer_loadgen.wire_probe"),
        *(
            word
            for name, (host, http_port, grpc_port) in targets.items()
            for word in ("--target", name, host, str(http_port), str(grpc_port))
        ),
        *(word for name, reason in unavailable.items() for word in ("--unavailable", name, reason)),
    )


def wire_server_command(
    python: str, *, host: str, http_port: int = 0, grpc_port: int = 0
) -> tuple[str, ...]:
    """Return the command of a server of the identity model; port 0 is a free one.

    It reports as every server of ours: its first line has the ports.
    """
    return (
        *(python, "-m", "inferometer_serving.node.wire_server"),
        *("--host", host, "--http-port", str(http_port), "--grpc-port", str(grpc_port)),
    )
