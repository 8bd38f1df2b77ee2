"""Base class of all documents, and the field types that they share.

Validation is as strict as that of a Kubernetes API server: unknown fields are rejected, `null`
means absent, `8.0` is the integer 8, and neither `"8"` nor `true` is a number. Documents that
another program wrote are read with `Document.read` and `Document.read_json`, which ignore unknown
fields and accept any text where this version knows a list of words.
"""

import re
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, Self, cast

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema, PydanticCustomError, SchemaValidator, core_schema
from typing_extensions import override

from inferometer_api import patterns
from inferometer_api.rules import Fault, FaultsError, Rule

API_VERSION = "inferometer.dev/v1alpha1"
READING = "reading"
"""Validation context in which rules between fields and lists of words do not apply."""
_MOST_ENTRIES = 4096
"""Of one map that another program wrote. The largest has an entry for each Python package."""


def _with_open_words(schema: Any) -> Any:
    """Return the core schema of a document whose lists of words are open to readers."""
    if isinstance(schema, list):
        return [_with_open_words(each) for each in schema]
    if not isinstance(schema, dict) or _is_open(schema):
        return schema
    if schema.get("type") == "literal" and len(schema["expected"]) > 1:
        return core_schema.with_info_wrap_validator_function(
            _known_or_read,
            cast("CoreSchema", schema),
            serialization=core_schema.simple_ser_schema("any"),
        )
    return {
        key: value if key == "metadata" else _with_open_words(value)
        for key, value in schema.items()
    }


def _is_open(schema: dict[str, Any]) -> bool:
    function = schema.get("function")
    return isinstance(function, dict) and function.get("function") is _known_or_read


def _known_or_read(value: Any, known: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
    try:
        return known(value)
    except ValidationError:
        if info.context == READING and isinstance(value, str):
            return value
        raise


class Document(BaseModel):
    """A frozen, strict model whose wire names are camelCase and whose docstrings are its help."""

    model_config = ConfigDict(
        defer_build=True,  # a component uses few of the models: building all took 13 MiB
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
    """Rules between fields. They apply to what users write, not to `read` and `read_json`."""

    @classmethod
    def read(cls, data: Any) -> Self:
        """Return the document in `data`, which another program wrote.

        Fields that this version does not know are ignored. A text stays as it is where this
        version knows a list of words, also if it is none of them. Raises pydantic's
        ValidationError.
        """
        return cls.model_validate(data, extra="ignore", context=READING)

    @classmethod
    def read_json(cls, text: str | bytes | bytearray, *, keep_unknown: bool = False) -> Self:
        """Return the document in a JSON text, which another program wrote; see `read`.

        With `keep_unknown`, the fields that this version does not know are in `model_extra`. NaN
        and Infinity are no numbers of JSON (RFC 8259), and an error. The error has the first one
        of each list: pydantic takes about 1 KiB for each error that it collects, and a damaged
        list has millions.
        """
        extra: Literal["allow", "ignore"] = "allow" if keep_unknown else "ignore"
        found = _reader(cls).validate_json(text, extra=extra, context=READING)
        return cast("Self", found)

    @classmethod
    @override
    def __get_pydantic_core_schema__(
        cls, source: type[BaseModel], handler: GetCoreSchemaHandler, /
    ) -> CoreSchema:
        return cast("CoreSchema", _with_open_words(handler(source)))

    @model_validator(mode="after")
    def _check_constraints(self, info: ValidationInfo) -> Self:
        if info.context == READING:
            return self
        broken = tuple(
            fault
            for rule in self.constraints
            if rule.holds is not None and not rule.holds(self)
            for fault in rule.faults(self)
        )
        if broken:
            raise FaultsError(broken)
        return self

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, data: Any) -> Any:
        return _without_nulls(data)


@cache
def _reader(model: type[Document]) -> SchemaValidator:
    model.model_rebuild()  # documents are built on first use
    return SchemaValidator(_bounded(model.__pydantic_core_schema__))


def _bounded(schema: Any) -> Any:
    """Return a core schema that bounds what it reads.

    Each list has one error at most, maps are small, and numbers are finite.
    """
    if isinstance(schema, list):
        return [_bounded(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: value if key == "metadata" else _bounded(value) for key, value in schema.items()}
    if schema.get("type") == "float":
        return {**found, "allow_inf_nan": False}
    if schema.get("type") == "list":
        return {**found, "fail_fast": True}
    if schema.get("type") == "dict":
        return core_schema.no_info_before_validator_function(
            _check_entries, cast("CoreSchema", found)
        )
    return found


def _check_entries(value: Any) -> Any:
    if isinstance(value, dict) and len(value) > _MOST_ENTRIES:
        raise PydanticCustomError("too_many", "has more than 4096 entries")
    return value


def _without_nulls(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: value for key, value in data.items() if value is not None}
    return data


def _integral(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


Integral = BeforeValidator(_integral)
"""Annotation of an integer that reads `8.0` as 8, because JSON does not distinguish them. It comes
last, so that the bounds before it are part of the schema."""

Integer = Annotated[int, Integral]
"""A whole number without bounds of its own."""

Count = Annotated[int, Field(ge=0, le=2**53 - 1), Integral]

Timestamp = Annotated[str, StringConstraints(max_length=40, pattern=patterns.TIME)]
"""A time in RFC 3339, as `inferometer_api.timestamps.format_time` writes it."""

DnsLabel = Annotated[
    str, StringConstraints(min_length=1, max_length=63, pattern=patterns.DNS_LABEL)
]
"""A Kubernetes DNS label (RFC 1123)."""

DnsSubdomain = Annotated[
    str, StringConstraints(min_length=1, max_length=253, pattern=patterns.DNS_SUBDOMAIN)
]
"""A Kubernetes DNS subdomain (RFC 1123), as object names are."""

Sha256 = Annotated[str, StringConstraints(pattern=patterns.SHA256, max_length=64)]

FilePath = Annotated[str, StringConstraints(min_length=1, max_length=4096)]


def _integer_or_string(pattern: str, maximum: int, max_length: int) -> WithJsonSchema:
    return WithJsonSchema(
        {
            "x-kubernetes-int-or-string": True,
            "minimum": 1,
            "maximum": maximum,
            "maxLength": max_length,
            "pattern": pattern,
        }
    )


def _digits(value: Any) -> Any:
    """Take a whole number as its digits, as Kubernetes does in a quantity."""
    value = _integral(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value


CpuQuantity = Annotated[
    str,
    StringConstraints(max_length=16, pattern=patterns.CPU),
    BeforeValidator(_digits),
    _integer_or_string(patterns.CPU, maximum=10**6 - 1, max_length=16),
]
"""CPU cores as Kubernetes writes them: 2, "0.5" or "500m"; kept as a string."""

MemoryQuantity = Annotated[
    str,
    StringConstraints(max_length=20, pattern=patterns.MEMORY),
    BeforeValidator(_digits),
    _integer_or_string(patterns.MEMORY, maximum=10**15 - 1, max_length=20),
]
"""Bytes as Kubernetes writes them: "512Mi", "2Gi", 2000000000; kept as a string."""

DECIMAL_MAXIMUM = 9_999_999
_DECIMAL = re.compile(patterns.DECIMAL.removesuffix("$") + r"\Z", re.ASCII)


def _decimal(value: Any) -> Any:
    """Check both forms at once, so that a wrong value gives one message."""
    value = _integral(value)
    if isinstance(value, str) and len(value) <= 16 and _DECIMAL.match(value):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= DECIMAL_MAXIMUM:
        return value
    raise FaultsError((Fault((), f"must be {patterns.MEANINGS[patterns.DECIMAL]}"),))


Decimal = Annotated[
    int | str,
    BeforeValidator(_decimal),
    _integer_or_string(patterns.DECIMAL, maximum=DECIMAL_MAXIMUM, max_length=16),
]
"""A positive decimal with at most 3 decimals: an integer (`200`) or a string (`"16.5"`)."""


def milli(value: int | str) -> int:
    """Return a `Decimal` in thousandths, exactly: `"12.5"` is 12500."""
    whole, _, fraction = str(value).partition(".")
    return int(whole) * 1000 + int(fraction.ljust(3, "0") or 0)


NullsAbsent = BeforeValidator(_without_nulls)
"""Annotates a map in which a `null` value means that the key is absent."""
