"""Structural schemas of pydantic models, as Kubernetes requires them.

No maintained generator exists, and this one is small. It rejects, with the path, everything that an
API server rejects or the Kubernetes API conventions forbid, so that a mistake in a model shows here
and not in `kubectl apply`.
Source: https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema
"""

import inspect
from typing import Any

from pydantic import BaseModel, TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema
from typing_extensions import override

from inferometer_api.document import Document

Schema = dict[str, Any]
"""A JSON object of a schema: the one place where Any is at home."""

_COPIED = (
    "enum",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "required",
)
_HANDLED = frozenset(
    {
        *_COPIED,
        "additionalProperties",
        "const",
        "default",
        "description",
        "discriminator",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "items",
        "patternProperties",
        "properties",
        "propertyNames",
        "title",
        "type",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
        "x-kubernetes-validations",
    }
)
_INT32 = range(-(2**31), 2**31)


class NotStructuralError(ValueError):
    """A model says what a structural schema cannot say; the message names the path."""

    def __init__(self, path: str, fact: str) -> None:
        super().__init__(f"{path}: {fact}")


def structural_schema(
    model: type[BaseModel], *, path: str, defaults_in_lists: bool = True
) -> Schema:
    """Return the OpenAPI v3 schema of a model, as a CustomResourceDefinition takes it.

    `path` is what the model is called in errors. Without `defaults_in_lists` the API server fills
    in nothing within lists, and the help of a field says its default: `kubectl apply` compares a
    list as a whole with the file, and would send it again each time. Raises NotStructuralError on
    unions, tuples, floats, Any, and on strings, lists, maps and integers without bounds or fields
    without help.
    """
    try:
        raw = json_schema(model)
    except PydanticInvalidForJsonSchema as error:
        raise NotStructuralError(
            path, f"a type that JSON does not have: {error.message}"
        ) from error
    found = _Inliner(raw.get("$defs", {})).schema(raw, path)
    return found if defaults_in_lists else _without_defaults_in_lists(found)


def json_schema(model: type[BaseModel]) -> Schema:
    """Return a model's JSON Schema with Kubernetes' own words in it, references and all."""
    return model.model_json_schema(schema_generator=_StructuralSchemaGenerator, mode="validation")


class _StructuralSchemaGenerator(GenerateJsonSchema):
    """pydantic's generator with what a structural schema adds and leaves out."""

    @override
    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        """Generate the inner schema: Kubernetes drops `null`, so the field is only optional."""
        return self.generate_inner(schema["schema"])

    @override
    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """Take the defaults of factories too; no default where absent is a value of its own."""
        found = self.generate_inner(schema["schema"])
        default = schema.get("default")
        if "default_factory" in schema and not schema.get("default_factory_takes_data"):
            factory: Any = schema["default_factory"]
            default = factory()
        if default is None:
            return found
        return {**found, "default": _plain(default)}

    @override
    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """Say the rules that no single field can state."""
        found = super().model_schema(schema)
        model = schema["cls"]
        if issubclass(model, Document) and model.constraints:
            found["x-kubernetes-validations"] = [
                {
                    "rule": rule.cel,
                    "message": rule.message,
                    **({"fieldPath": f".{rule.field}"} if rule.field else {}),
                }
                for rule in model.constraints
            ]
        return found


def _plain(default: Any) -> Any:
    """Return a default as JSON, with the defaults of its members.

    The API server holds rules against a default as it stands, before it fills in its members.
    """
    return TypeAdapter(type(default)).dump_python(
        default, mode="json", by_alias=True, exclude_none=True
    )


class _Inliner:
    """Walks a JSON Schema and writes a structural one, or raises with the path."""

    def __init__(self, definitions: Schema) -> None:
        self._definitions = definitions
        self._within: list[str] = []

    def schema(self, node: Schema, path: str) -> Schema:
        if "$ref" not in node:
            return self._written(node, path)
        name = node["$ref"].removeprefix("#/$defs/")
        if name in self._within:
            raise NotStructuralError(path, f"{name} contains itself, and must end somewhere")
        siblings = {key: value for key, value in node.items() if key != "$ref"}
        self._within.append(name)
        found = self.schema({**self._definitions[name], **siblings}, path)
        self._within.pop()
        return found

    def _written(self, node: Schema, path: str) -> Schema:
        if unknown := sorted(node.keys() - _HANDLED - {"$defs"}):
            raise NotStructuralError(path, f"a structural schema has no {', '.join(unknown)}")
        found = _description(node, path)
        if "default" in node:
            found["default"] = node["default"]
        found.update(self._typed(node, path))
        found.update((key, node[key]) for key in _COPIED if key in node)
        if "const" in node:
            found["enum"] = [node["const"]]
        if rules := [*_key_rules(node), *node.get("x-kubernetes-validations", ())]:
            found["x-kubernetes-validations"] = rules
        return found

    def _typed(self, node: Schema, path: str) -> Schema:
        if node.get("x-kubernetes-int-or-string"):
            _require(node, ("minimum", "maximum", "maxLength"), path, "an int-or-string")
            return {"x-kubernetes-int-or-string": True}
        match node.get("type"):
            case "object":
                return self._object(node, path)
            case "array":
                return self._array(node, path)
            case "string":
                if "enum" not in node and "const" not in node:
                    _require(node, ("maxLength",), path, "a string")
                return {"type": "string"}
            case "integer":
                return _integer(node, path)
            case "boolean":
                return {"type": "boolean"}
            case "number":
                raise NotStructuralError(path, "a float; use an integer with its unit in the name")
            case other:
                raise NotStructuralError(path, f"its type is {other or 'not said'}")

    def _object(self, node: Schema, path: str) -> Schema:
        values = node.get("additionalProperties", False)
        if patterns := node.get("patternProperties"):
            (values,) = patterns.values()
        if values is True:
            raise NotStructuralError(path, "a map of values without a type")
        if not values:
            properties = node.get("properties", {})
            below = {name: self.schema(each, f"{path}.{name}") for name, each in properties.items()}
            if undescribed := [name for name in below if not below[name].get("description")]:
                raise NotStructuralError(f"{path}.{undescribed[0]}", "it has no description")
            return {"type": "object", **({"properties": below} if below else {})}
        _require(node, ("maxProperties",), path, "a map")
        return {
            "type": "object",
            "additionalProperties": self.schema(values, f"{path}[*]"),
        }

    def _array(self, node: Schema, path: str) -> Schema:
        items = node.get("items")
        if not isinstance(items, dict) or not items:
            raise NotStructuralError(path, "a list of items without one type")
        _require(node, ("maxItems",), path, "a list")
        found = {
            "type": "array",
            "items": self.schema(items, f"{path}[*]"),
            "x-kubernetes-list-type": node.get("x-kubernetes-list-type", "atomic"),
        }
        if keys := node.get("x-kubernetes-list-map-keys"):
            found["x-kubernetes-list-map-keys"] = keys
        return found


def _without_defaults_in_lists(node: Schema, *, in_list: bool = False) -> Schema:
    found = dict(node)
    if in_list and "default" in found:
        default = found.pop("default")
        if not isinstance(default, dict | list):
            found["description"] = f"{found['description']} Default: {default}."
    if "items" in found:
        found["items"] = _without_defaults_in_lists(found["items"], in_list=True)
    if "properties" in found:
        found["properties"] = {
            name: _without_defaults_in_lists(each, in_list=in_list)
            for name, each in found["properties"].items()
        }
    return found


def _description(node: Schema, path: str) -> Schema:
    text = node.get("description")
    if text is None:
        return {}
    text = " ".join(inspect.cleandoc(text).split())
    if not text:
        raise NotStructuralError(path, "its description is empty")
    return {"description": text}


def _integer(node: Schema, path: str) -> Schema:
    found: Schema = {"type": "integer"}
    # OpenAPI v3.0 marks an exclusive bound with a boolean, JSON Schema has a keyword for it.
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if exclusive in node:
            found[bound], found[exclusive] = node[exclusive], True
    limits = {**node, **found}
    if "enum" not in node and "const" not in node:
        _require(limits, ("minimum", "maximum"), path, "an integer")
        small = limits["minimum"] in _INT32 and limits["maximum"] in _INT32
        found["format"] = "int32" if small else "int64"
    return found


def _require(node: Schema, bounds: tuple[str, ...], path: str, what: str) -> None:
    if missing := [bound for bound in bounds if bound not in node]:
        raise NotStructuralError(path, f"{what} needs {' and '.join(missing)}")


def _key_rules(node: Schema) -> list[Schema]:
    """Return what holds for the keys of a map, of which a structural schema can only say by CEL."""
    names = {**node.get("propertyNames", {})}
    for pattern in node.get("patternProperties", {}):
        names["pattern"] = pattern
    tests, words = [], []
    if "maxLength" in names:
        low, high = names.get("minLength", 0), names["maxLength"]
        tests.append(f"key.size() >= {low} && key.size() <= {high}")
        words.append(f"has {low} to {high} characters")
    if "pattern" in names:
        tests.append(f"key.matches(r'{names['pattern']}')")
        words.append(f"matches {names['pattern']}")
    if not tests:
        return []
    rule = f"self.all(key, {' && '.join(tests)})"
    return [{"rule": rule, "message": f"each key {' and '.join(words)}"}]
