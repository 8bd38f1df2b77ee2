"""Checks the labels by which a result belongs to a suite: anyone can write them."""

import re
from collections.abc import Mapping
from typing import Final

from inferometer_api.suite.labels import (
    BLOCK_LABEL,
    CELL_LABEL,
    EXECUTION_LABEL,
    ROLE_LABEL,
    SPEC_LABEL,
    SUITE_LABEL,
    SYSTEM_LABEL,
    label_value,
)

_ROLES: Final = ("cell", "opening", "closing")
_BLOCK = re.compile(r"[1-9][0-9]{0,5}")
_VALUES = (SUITE_LABEL, EXECUTION_LABEL, CELL_LABEL, SYSTEM_LABEL, SPEC_LABEL)


def suite_label_fault(labels: Mapping[str, str]) -> str:
    """Return which label cannot be that of a suite's run, as a sentence; empty if all can.

    Labels that are missing or empty are no fault.
    """
    block, role = labels.get(BLOCK_LABEL), labels.get(ROLE_LABEL)
    if block and not _BLOCK.fullmatch(block):
        return f"Its label {BLOCK_LABEL} is {_short(block)}, and not the number of a block."
    if role and role not in _ROLES:
        return f"Its label {ROLE_LABEL} is {_short(role)}, and not one of {', '.join(_ROLES)}."
    for name in _VALUES:
        value = labels.get(name, "")
        if label_value(value) != value:
            return (
                f"Its label {name} is {_short(value)}: a label has at most 63 letters, digits, "
                "points, hyphens and underscores."
            )
    return ""


def _short(value: str) -> str:
    return repr(value if len(value) <= 63 else f"{value[:60]}...")
