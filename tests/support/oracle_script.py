"""What an oracle does: delays, faults, documents, and changes at the receipt of an inference."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Fault = Literal["status", "silence", "cut", "garbage", "names", "types", "shapes", "json"]
"""What is wrong with a reply: an error, none at all, a lost connection, bytes that are no reply,
outputs that are not the model's, or good ones in JSON. gRPC has no "cut", "garbage" and "json"."""

FAULTS: tuple[Fault | None, ...] = (
    None,
    "status",
    "silence",
    "cut",
    "garbage",
    "names",
    "types",
    "shapes",
    "json",
)
"""An inference's fault is reported by its place here."""

_SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Script:
    """An oracle's behaviour; times are in nanoseconds, inferences are counted from 0."""

    delays: Sequence[int] | NDArray[np.int64] = (0,)
    """Of each inference in turn; after the last one they begin anew."""
    is_queue: bool = False
    """Whether delays are services of one server with a queue, first come, first served."""
    stall: tuple[int, int] | None = None
    """Answer nothing for so long, from the receipt of the inference of this number."""
    faults: Sequence[Fault | None] = (None,)
    """Of each inference in turn, from number `faults_from` on."""
    faults_from: int = 0
    limit: tuple[int, float] | None = None
    """Tokens that can be saved up, and tokens a second; an inference without a token fails."""
    settings: dict[str, str] | Sequence[dict[str, str]] | None = None
    """Parameters of the model's configuration, or several that are answered in turn."""
    inputs: Sequence[dict[str, Any]] | None = None
    """The model's inputs if they are not the oracle's own."""
    ready: bool = True
    redirects: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Paths that HTTP answers by a status and a Location."""
    documents: dict[str, str] = field(default_factory=dict)
    """Paths that HTTP answers by a text of the test's own."""
    away: tuple[int, int] | None = None
    """With the receipt of which inference it loses all HTTP connections, and for how long it then
    accepts none."""
    dies_at: int | None = None
    """With the receipt of which inference the process ends."""
    changes: dict[int, dict[str, Any]] = field(default_factory=dict)
    """Fields of this class that change with the receipt of an inference, by its number."""

    def document(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        found = asdict(replace(self, delays=[int(delay) for delay in self.delays]))
        return found | {"changes": {str(key): each for key, each in self.changes.items()}}

    @classmethod
    def read(cls, document: dict[str, Any]) -> "Script":
        """Return what `document` made JSON of."""
        changes = {int(key): each for key, each in document.get("changes", {}).items()}
        return cls(**{**document, "changes": changes})


def delayed(seconds: float, **more: Any) -> Script:
    """Return a script that delays each reply equally."""
    return Script(delays=(round(seconds * _SECOND_NS),), **more)
