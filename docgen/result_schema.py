"""JSON Schema of the result document, which is written without `null`."""

from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema
from typing_extensions import override

from inferometer_api.results.result import SCHEMA_VERSION, ResultDocument

_ID = f"https://inferometer.dev/schemas/result-v{SCHEMA_VERSION.partition('.')[0]}.json"


def result_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of `ResultDocument` as it is written."""
    found = ResultDocument.model_json_schema(
        schema_generator=_ResultSchemaGenerator, mode="serialization"
    )
    head = {
        "$schema": GenerateJsonSchema.schema_dialect,
        "$id": _ID,
        "title": f"Inferometer result document, version {SCHEMA_VERSION}",
    }
    definitions = {"$defs": found.pop("$defs")}
    plain: dict[str, Any] = _without_kubernetes({**found, **definitions})
    return {**head, **{key: value for key, value in plain.items() if key not in head}}


class _ResultSchemaGenerator(GenerateJsonSchema):
    """pydantic's generator for documents without `null`."""

    @override
    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    @override
    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """Leave defaults out: they say how a document is made, and every field is written."""
        return self.generate_inner(schema["schema"])

    @override
    def field_title_should_be_set(self, schema: Any) -> bool:
        """Repeat no name as a title."""
        return False

    @override
    def field_is_required(
        self,
        field: core_schema.ModelField | core_schema.DataclassField | core_schema.TypedDictField,
        total: bool,
    ) -> bool:
        schema: Any = field["schema"]
        while schema["type"] == "default":
            schema = schema["schema"]
        return bool(schema["type"] != "nullable")


def _without_kubernetes(node: Any) -> Any:
    """Return a schema in plain JSON Schema, without what only an API server understands."""
    if isinstance(node, list):
        return [_without_kubernetes(item) for item in node]
    if not isinstance(node, dict):
        return node
    if node.get("x-kubernetes-int-or-string"):
        return _integer_or_string(node)
    plain = {
        key: _without_kubernetes(value)
        for key, value in node.items()
        if not key.startswith("x-kubernetes-")
    }
    if "x-kubernetes-list-type" in node and node["x-kubernetes-list-type"] == "set":
        plain["uniqueItems"] = True
    return plain


def _integer_or_string(node: dict[str, Any]) -> dict[str, Any]:
    integer = {"type": "integer", "minimum": node["minimum"], "maximum": node["maximum"]}
    text = {"type": "string", "maxLength": node["maxLength"], "pattern": node["pattern"]}
    beside = {"description": node["description"]} if "description" in node else {}
    return {**beside, "anyOf": [integer, text]}
