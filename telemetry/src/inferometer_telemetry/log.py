"""The agent's log: one line of key=value pairs per event, on standard error.

As structlog writes them in the operator, which takes an eighth of an agent's start to import: each
local run starts one.
"""

import json
import sys
from contextlib import suppress
from datetime import UTC, datetime
from typing import Literal

from inferometer_api.timestamps import format_time


def log(level: Literal["info", "error"], event: str, **facts: str) -> None:
    """Write one event; ignore a reader that has gone."""
    pairs = {"timestamp": format_time(datetime.now(UTC)), "level": level, "event": event, **facts}
    with suppress(OSError):
        sys.stderr.write(" ".join(f"{name}={_word(text)}" for name, text in pairs.items()) + "\n")
        sys.stderr.flush()


def _word(text: str) -> str:
    is_word = text and not any(each.isspace() or each in '="\\' for each in text)
    return text if is_word else json.dumps(text, ensure_ascii=False)
