"""A model becomes a structural schema, or is refused with the path."""

from typing import Annotated, Any, ClassVar, Literal

import pytest
from pydantic import Field, StringConstraints, create_model

from inferometer_api.document import Decimal, Document, Integral
from inferometer_api.rules import Rule, Unique
from inferometer_api.schema import NotStructuralError, structural_schema

_Number = Annotated[int, Field(ge=0, le=9), Integral]
_Text = Annotated[str, StringConstraints(max_length=9)]


class Inner(Document):
    """What is inside."""

    size: _Number = 3
    """How large it is."""


class Outer(Document):
    """What is outside.

    And around.
    """

    required: _Text
    """What must be said."""
    optional: _Text | None = None
    """What may be said."""
    inner: Inner = Field(default_factory=Inner)
    """What it has."""
    kind: Literal["one"] = "one"
    """What it is."""
    large: Annotated[int, Field(gt=0, lt=2**40), Integral] = 1
    """How much."""
    sizes: Annotated[list[_Number], Field(max_length=3), Unique()] = Field(default_factory=list)
    """Which ones."""
    inners: Annotated[list[Inner], Field(max_length=3), Unique("size")] = Field(
        default_factory=list
    )
    """Which others."""
    plain: Annotated[list[_Number], Field(max_length=3)] = Field(default_factory=list)
    """Whatever order."""
    names: Annotated[
        dict[Annotated[str, StringConstraints(max_length=5, pattern="^a+$")], _Text],
        Field(max_length=2),
    ] = Field(default_factory=dict)
    """By name."""
    rate: Decimal = "1"
    """How fast."""

    constraints: ClassVar[tuple[Rule, ...]] = (
        Rule(cel="self.kind == 'one'", message="one", holds=lambda _: True, field="kind"),
    )


def properties() -> dict[str, Any]:
    """Return the schemas of the members of Outer."""
    found: dict[str, Any] = structural_schema(Outer, path="outer")["properties"]
    return found


def test_optional_is_absent_never_null() -> None:
    """A member that may be None is neither required nor nullable, and has no default."""
    assert structural_schema(Outer, path="outer")["required"] == ["required"]
    assert properties()["optional"] == {
        "description": "What may be said.",
        "type": "string",
        "maxLength": 9,
    }


def test_a_member_is_inlined_with_its_default() -> None:
    """A model inside stands in place, with the default of its factory and its field's help."""
    assert properties()["inner"] == {
        "description": "What it has.",
        "default": {"size": 3},
        "type": "object",
        "properties": {
            "size": {
                "description": "How large it is.",
                "default": 3,
                "type": "integer",
                "format": "int32",
                "minimum": 0,
                "maximum": 9,
            }
        },
    }


def test_help_is_one_line() -> None:
    """A docstring of several lines is one description."""
    assert structural_schema(Outer, path="outer")["description"] == "What is outside. And around."


def test_a_constant_is_an_enum() -> None:
    """A structural schema has no const."""
    assert properties()["kind"]["enum"] == ["one"]


def test_exclusive_bounds_are_booleans() -> None:
    """OpenAPI v3.0 marks exclusive bounds with a boolean; a wide integer is int64."""
    large = properties()["large"]
    assert (large["minimum"], large["exclusiveMinimum"]) == (0, True)
    assert (large["maximum"], large["exclusiveMaximum"]) == (2**40, True)
    assert large["format"] == "int64"


def test_lists_declare_their_item_keys() -> None:
    """A list is a set, a map by key, or atomic."""
    found = properties()
    assert found["sizes"]["x-kubernetes-list-type"] == "set"
    assert found["inners"]["x-kubernetes-list-type"] == "map"
    assert found["inners"]["x-kubernetes-list-map-keys"] == ["size"]
    assert found["plain"]["x-kubernetes-list-type"] == "atomic"


def test_keys_of_a_map_are_judged_by_a_rule() -> None:
    """What a structural schema cannot say of keys is said in CEL."""
    names = properties()["names"]
    assert names["additionalProperties"] == {"type": "string", "maxLength": 9}
    assert [rule["rule"] for rule in names["x-kubernetes-validations"]] == [
        "self.all(key, key.size() >= 0 && key.size() <= 5 && key.matches(r'^a+$'))"
    ]


def test_a_decimal_is_an_integer_or_a_string() -> None:
    """A rate has both forms, both bounded, and no type."""
    rate = properties()["rate"]
    assert rate["x-kubernetes-int-or-string"] is True
    assert rate["default"] == "1"
    assert "type" not in rate
    assert {"minimum", "maximum", "maxLength", "pattern"} <= rate.keys()


def test_rules_are_published_with_their_field() -> None:
    """A model's constraints are its CEL rules."""
    assert structural_schema(Outer, path="outer")["x-kubernetes-validations"] == [
        {"rule": "self.kind == 'one'", "message": "one", "fieldPath": ".kind"}
    ]


class _Odd:
    """What JSON does not have."""


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (int | str, "at.odd: a structural schema has no anyOf"),
        (tuple[int, str], "at.odd: a structural schema has no prefixItems"),
        (Any, "at.odd: its type is not said"),
        (float, "at.odd: a float; use an integer with its unit in the name"),
        (str, "at.odd: a string needs maxLength"),
        (int, "at.odd: an integer needs minimum and maximum"),
        (Annotated[int, Field(ge=0)], "at.odd: an integer needs maximum"),
        (list[_Number], "at.odd: a list needs maxItems"),
        (Annotated[list[str], Field(max_length=1)], "at.odd[*]: a string needs maxLength"),
        (Annotated[list[Any], Field(max_length=1)], "at.odd: a list of items without one type"),
        (dict[str, _Number], "at.odd: a map needs maxProperties"),
        (dict[str, Any], "at.odd: a map of values without a type"),
        (_Text, "at.odd: it has no description"),
    ],
)
def test_what_is_not_structural_is_refused_with_its_path(kind: Any, expected: str) -> None:
    """Unions, tuples, Any, floats and whatever has no bound or no help are refused."""
    model = create_model("Model", __base__=Document, odd=(kind, ...))
    with pytest.raises(NotStructuralError) as caught:
        structural_schema(model, path="at")
    assert str(caught.value).startswith(expected)


class Endless(Document):
    """What contains itself."""

    within: "Endless | None" = None
    """Another."""


def test_what_contains_itself_is_refused() -> None:
    """A structural schema has no references, so that a recursive model has none."""
    with pytest.raises(NotStructuralError, match="Endless contains itself"):
        structural_schema(Endless, path="at")
