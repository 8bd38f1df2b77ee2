"""Fields of a manifest of MLModelScope: each maps, or is named as not mapped with the reason."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from typing import Any, TypeVar

_Found = TypeVar("_Found")
_MAXIMUM_PIXELS = 16_384
_DATATYPES = {
    "bool": "BOOL",
    "bfloat16": "BF16",
    "double": "FP64",
    "float": "FP32",
    "float16": "FP16",
    "float32": "FP32",
    "float32s": "FP32",
    "float64": "FP64",
    "int": "INT32",
    "string": "BYTES",
    **{
        f"{kind}{bits}": f"{kind.upper()}{bits}"
        for kind in ("int", "uint")
        for bits in (8, 16, 32, 64)
    },
}


class UnmappedError(ValueError):
    """A value has no place in our manifest; the message is the reason, without its period."""


@dataclass(slots=True)
class Notes:
    """What a conversion reports."""

    mapped: list[str] = field(default_factory=list)
    """Paths of fields that are in the manifest."""
    not_mapped: dict[str, str] = field(default_factory=dict)
    """Why a field is not, by path."""
    checks: list[str] = field(default_factory=list)
    """What a person must complete, each a sentence without its period."""


class Fields:
    """A mapping of the source that remembers which of its fields were read."""

    def __init__(self, notes: Notes, data: dict[Any, Any], path: str = "") -> None:
        self.notes = notes
        self.path = path
        self._data = {str(name): value for name, value in data.items()}
        self._read: set[str] = set()

    def __contains__(self, name: str) -> bool:
        """Return whether a field has a value."""
        return self._data.get(name) is not None

    @property
    def names(self) -> list[str]:
        """The names of all fields."""
        return list(self._data)

    def read(self, name: str) -> Any:
        """Return the value of a field, which the caller maps or names."""
        self._read.add(name)
        return self._data.get(name)

    def map(self, name: str) -> None:
        """Count a field as mapped."""
        self.notes.mapped.append(f"{self.path}{name}")

    def note(self, name: str, why: str) -> None:
        """Name a field as not mapped."""
        self._read.add(name)
        self.notes.not_mapped[f"{self.path}{name}"] = why

    def unmap(self, name: str, why: str) -> None:
        """Name a field as not mapped though its value could be read; does nothing if absent."""
        if (path := f"{self.path}{name}") in self.notes.mapped:
            self.notes.mapped.remove(path)
            self.note(name, why)

    def take(self, name: str, convert: Callable[[Any], _Found]) -> _Found | None:
        """Return a field in our form; None if it is absent, or if `convert` finds no such form."""
        value = self.read(name)
        try:
            found = None if value is None else convert(value)
        except UnmappedError as error:
            self.note(name, str(error))
            return None
        if name in self._data:
            self.map(name)
        return found

    def take_first(self, names: tuple[str, ...], convert: Callable[[Any], _Found]) -> _Found | None:
        """Return the first of some fields that says the same; others that differ are named."""
        found: _Found | None = None
        for name in names:
            value = self.take(name, convert)
            if found is None:
                found = value
            elif value is not None and value != found:
                self.unmap(name, f"another field says {found}")
        return found

    def child(self, name: str) -> "Fields":
        """Return the fields of a member; none if it is absent, or is no mapping, which is named."""
        value = self.read(name)
        if value is not None and not isinstance(value, dict):
            self.note(name, "it must be a mapping")
        return Fields(self.notes, value if isinstance(value, dict) else {}, f"{self.path}{name}.")

    def children(self, name: str) -> list["Fields"]:
        """Return the fields of each member of a list; members that are no mappings are named."""
        value = self.read(name)
        if value is not None and not isinstance(value, list):
            self.note(name, "it must be a list")
        found = []
        for index, each in enumerate(value if isinstance(value, list) else []):
            if isinstance(each, dict):
                found.append(Fields(self.notes, each, f"{self.path}{name}[{index}]."))
            else:
                self.note(f"{name}[{index}]", "it must be a mapping")
        return found

    def finish(self, why: str = "this version does not know the field") -> None:
        """Name the fields that were not read."""
        for name in self._data:
            if name not in self._read:
                self.note(name, why)


def text(value: Any) -> str:
    """Return a text, or a number as one."""
    if isinstance(value, bool) or not isinstance(value, str | int | float | date):
        raise UnmappedError("it must be a text")
    return str(value).strip()


def texts(value: Any) -> list[str]:
    """Return a list of texts, or a single one as such."""
    if isinstance(value, list):
        return [text(each) for each in value]
    return [text(value)]


def tensor_name(value: Any) -> str:
    """Return the name of a tensor."""
    if isinstance(value, int):
        raise UnmappedError("it is a position: write the name of the tensor")
    return text(value)


def flag(value: Any) -> bool:
    """Return a truth value."""
    if not isinstance(value, bool):
        raise UnmappedError("it must be true or false")
    return value


def number(value: Any) -> float:
    """Return a finite number, which may be a text."""
    try:
        found = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not math.isfinite(found):
        raise UnmappedError("it must be a number")
    return found


def channels(value: Any) -> list[float]:
    """Return one number, or one for each channel."""
    found = value if isinstance(value, list) else [value]
    try:
        if 1 <= len(found) <= 4:
            return [number(each) for each in found]
    except UnmappedError:
        pass
    raise UnmappedError(
        "it must be a number, or a list of one for each of 4 channels at most; a file with a mean "
        "image has no step here"
    )


def divisors(value: Any) -> list[float]:
    """Return one number above 0, or one for each channel."""
    found = channels(value)
    if min(found) <= 0:
        raise UnmappedError("it divides, and must be above 0")
    return found


def pixels(value: Any) -> int:
    """Return a number of pixels."""
    found = number(value)
    if not found.is_integer() or not 1 <= found <= _MAXIMUM_PIXELS:
        raise UnmappedError(f"a size is a whole number of 1 to {_MAXIMUM_PIXELS} pixels")
    return int(found)


def datatype(value: Any) -> str:
    """Return a datatype of the Open Inference Protocol."""
    found = _DATATYPES.get(text(value).lower())
    if found is None:
        raise UnmappedError("the Open Inference Protocol has no such datatype")
    return found


def sha256(value: Any) -> str:
    """Return a SHA-256; MLModelScope's checksums are MD5 sums."""
    found = text(value).lower()
    if re.fullmatch(r"[0-9a-f]{64}", found) is None:
        raise UnmappedError(
            "it is an MD5 sum, and an asset has a SHA-256: compute it from the file"
        )
    return found
