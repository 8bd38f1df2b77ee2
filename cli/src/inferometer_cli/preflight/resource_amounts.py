"""Kubernetes quantities: parsed to numbers and written for people."""

import re
from collections.abc import Mapping
from decimal import Decimal

Amounts = dict[str, Decimal]
"""How much of each resource: cpu in cores, memory in bytes, others counted."""

_NUMBER = r"([+-]?[0-9]*\.?[0-9]+|[+-]?[0-9]+\.)"
_QUANTITY = re.compile(_NUMBER + r"([eE][+-]?[0-9]+|[numkMGTPE]|[KMGTPE]i)?")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


def amount(quantity: str | float) -> Decimal:
    """Return the value of a quantity: 0.5 for "500m". Raises ValueError if it is malformed."""
    found = _QUANTITY.fullmatch(str(quantity))
    if found is None:
        raise ValueError(f"{quantity!r} is not a Kubernetes quantity.")
    number, suffix = Decimal(found[1]), found[2] or ""
    if suffix in _BINARY:
        return number * Decimal(2 ** _BINARY[suffix])
    if suffix in _DECIMAL:
        return number.scaleb(_DECIMAL[suffix])
    return number.scaleb(int(suffix[1:])) if suffix else number


def amounts(quantities: Mapping[str, str | int | float] | None) -> Amounts:
    """Return the value of each quantity."""
    return {name: amount(quantity) for name, quantity in (quantities or {}).items()}


def written(resource: str, value: Decimal) -> str:
    """Return an amount as people write it: 1.5 CPU, 2Gi, 3."""
    name = resource.removeprefix("requests.").removeprefix("limits.")
    if name == "cpu":
        return f"{_plain(value)} CPU"
    if name not in {"memory", "ephemeral-storage", "storage"}:
        return _plain(value)
    for suffix, power in reversed(_BINARY.items()):
        if value and abs(value) >= 2**power:
            return f"{_plain(round(value / 2**power, 2))}{suffix}"
    return _plain(value)


def _plain(value: Decimal) -> str:
    return f"{value.normalize():f}"
