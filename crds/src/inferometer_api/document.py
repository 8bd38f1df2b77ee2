"""What do all documents of Inferometer have in common, and which kinds of field do they use?

The models judge as a Kubernetes API server does under strict field validation: unknown fields are
refused, `null` means absent, `8.0` is the integer 8, and neither `"8"` nor `true` is a number.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel

API_VERSION = "inferometer.dev/v1alpha1"


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that no single field can state, told to both judges.

    `cel` is what the API server evaluates with `self` (and `oldSelf` on an update) as the object;
    `holds` is the same rule over the model, None where only an update can break it.
    """

    cel: str
    message: str
    holds: Callable[[Any], bool] | None


class Document(BaseModel):
    """A frozen, strict model whose wire names are camelCase and whose docstrings are its help."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        extra="forbid",
        frozen=True,
        serialize_by_alias=True,
        strict=True,
        use_attribute_docstrings=True,
        validate_by_alias=True,
        validate_by_name=True,
    )

    constraints: ClassVar[tuple[Rule, ...]] = ()

    @model_validator(mode="after")
    def _constraints_hold(self) -> Self:
        broken = [r.message for r in self.constraints if r.holds is not None and not r.holds(self)]
        if broken:
            raise ValueError("; ".join(broken))
        return self

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, data: Any) -> Any:
        return _without_nulls(data)


def _without_nulls(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: value for key, value in data.items() if value is not None}
    return data


def _integral(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


Integer = Annotated[int, BeforeValidator(_integral)]
"""A whole number; `8.0` is read as 8, as JSON does not tell them apart."""

Count = Annotated[Integer, Field(ge=0, le=2**53 - 1)]

DnsLabel = Annotated[
    str, StringConstraints(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
]
"""A Kubernetes DNS label (RFC 1123)."""

DnsSubdomain = Annotated[
    str,
    StringConstraints(
        min_length=1,
        max_length=253,
        pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
    ),
]
"""A Kubernetes DNS subdomain (RFC 1123), as object names are."""

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$", max_length=64)]

FilePath = Annotated[str, StringConstraints(min_length=1, max_length=4096)]

_CPU = (
    r"^([1-9][0-9]{0,5}(\.[0-9]{1,3})?|0\.([1-9][0-9]{0,2}|0[1-9][0-9]?|00[1-9])|[1-9][0-9]{0,8}m)$"
)
CpuQuantity = Annotated[str, StringConstraints(max_length=16, pattern=_CPU)]
"""CPU cores as Kubernetes writes them: "2", "0.5" or "500m"."""

MemoryQuantity = Annotated[
    str, StringConstraints(max_length=20, pattern=r"^[1-9][0-9]{0,14}(k|M|G|T|Ki|Mi|Gi|Ti)?$")
]
"""Bytes as Kubernetes writes them: "512Mi", "2Gi", "2000000000"."""

DECIMAL_PATTERN = (
    r"^(0{0,3}[1-9][0-9]{0,6}(\.[0-9]{1,3})?|0{1,3}\.([1-9][0-9]{0,2}|0[1-9][0-9]?|00[1-9]))$"
)
DECIMAL_MAXIMUM = 9_999_999
_DecimalString = Annotated[str, StringConstraints(max_length=16, pattern=DECIMAL_PATTERN)]
_DecimalInteger = Annotated[Integer, Field(ge=1, le=DECIMAL_MAXIMUM)]

Decimal = Annotated[
    _DecimalInteger | _DecimalString,
    WithJsonSchema(
        {
            "x-kubernetes-int-or-string": True,
            "minimum": 1,
            "maximum": DECIMAL_MAXIMUM,
            "maxLength": 16,
            "pattern": DECIMAL_PATTERN,
        }
    ),
]
"""A positive decimal with at most 3 decimals: an integer (`200`) or a string (`"16.5"`)."""


def milli(value: int | str) -> int:
    """Return a `Decimal` in thousandths, exactly: `"12.5"` is 12500."""
    whole, _, fraction = str(value).partition(".")
    return int(whole) * 1000 + int(fraction.ljust(3, "0") or 0)


def _unique(values: list[Any]) -> list[Any]:
    if len(set(values)) != len(values):
        raise ValueError("each value may stand once")
    return values


def exactly_one(members: tuple[str, ...]) -> Rule:
    """Return the rule that just one of the members (wire names) is set."""
    fields = {"".join(f"_{c.lower()}" if c.isupper() else c for c in name) for name in members}
    listed = ", ".join(f"has(self.{name})" for name in members)
    return Rule(
        cel=f"[{listed}].filter(set, set).size() == 1",
        message=f"set exactly one of {', '.join(members)}",
        holds=lambda document: sum(getattr(document, f) is not None for f in fields) == 1,
    )


Unique = AfterValidator(_unique)
"""Annotates a list in which each value may stand once (`x-kubernetes-list-type: set`)."""

NullsAbsent = BeforeValidator(_without_nulls)
"""Annotates a map in which a `null` value means that the key is absent."""
