"""The published API keeps the Kubernetes API conventions: a small lint over the schema."""

import re
from collections.abc import Iterator

import pytest
from pydantic import BaseModel, ValidationError

from inferometer_api.document import Document
from inferometer_api.patterns import MEANINGS
from inferometer_api.rules import FaultsError
from inferometer_api.spec.run import RunSpec
from inferometer_api.status.run_status import RunStatus
from support.run_bounds import Schema, crd, fields, run_schema
from support.run_table import rows

_CAMEL = re.compile(r"[a-z][a-z0-9]*([A-Z][a-z0-9]*)*")
_QUANTITIES = re.compile(
    r"(Qps|qps|p99|Seconds|Milliseconds|Microseconds|Percent|Size|Sizes|sizes|Batches|Inference"
    r"|MilliwattsPerCore|Millionths)$"
)
_UNITLESS = {
    # counts of what they are called, and names of numbers
    *("attempts", "bytes", "clients", "connections", "count", "errors", "instances", "iterations"),
    "minQueries",
    *("observedGeneration", "poolSize", "port", "queries", "repeat", "repeats", "replicas"),
    *("receiverPort", "sampleEvery"),
    *("totalErrors", "totalQueries"),
    *(
        "samples",
        "samplesPerQuery",
        "seed",
        "streamsPerConnection",
        "threads",
        "interOpThreads",
        "ttlSecondsAfterFinished",
    ),
    *("workers", "batchSize", "maxBatchSize"),
}


def _all_fields() -> list[tuple[str, Schema]]:
    root = run_schema()["properties"]
    return [field for name in ("spec", "status") for field in fields(root[name], name)]


def _name(path: str) -> str:
    return path.rpartition(".")[2]


def _of_type(kind: str) -> list[tuple[str, Schema]]:
    return [(path, schema) for path, schema in _all_fields() if schema.get("type") == kind]


def test_there_are_no_floats() -> None:
    """A number is an integer, or an integer or string."""
    assert _of_type("number") == []


def test_everything_is_bounded() -> None:
    """Every integer, string, list and map has a most, every integer a least."""
    bounds = {
        "integer": ("minimum", "maximum", "format"),
        "array": ("maxItems",),
        "string": ("maxLength",),
    }
    unbounded = [
        (path, bound)
        for path, schema in _all_fields()
        for bound in bounds.get(schema.get("type", ""), ())
        if bound not in schema and "enum" not in schema
    ]
    unbounded += [
        (path, "maxProperties")
        for path, schema in _all_fields()
        if "additionalProperties" in schema and "maxProperties" not in schema
    ]
    unbounded += [
        (path, "maximum")
        for path, schema in _all_fields()
        if "x-kubernetes-int-or-string" in schema
        and not {"minimum", "maximum", "maxLength", "pattern"} <= schema.keys()
    ]
    assert unbounded == []


def test_every_field_has_a_sentence_of_help() -> None:
    """What `kubectl explain` shows begins with a capital, ends with a stop and is short."""
    wrong = [
        (path, schema.get("description"))
        for path, schema in _all_fields()
        if not path.endswith(("[]", "{}"))
        and not re.fullmatch(r"(?s)[^a-z].{5,600}[.]", schema.get("description", ""))
        # A file format may lead.
        and not schema.get("description", "").startswith("http://")
    ]
    assert wrong == []


def test_every_list_has_a_type() -> None:
    """Each list is a set, a map or atomic; a map's key is a required member of its items."""
    for path, schema in _of_type("array"):
        kind = schema["x-kubernetes-list-type"]
        assert kind in {"set", "map", "atomic"}, path
        for key in schema.get("x-kubernetes-list-map-keys", ()):
            assert key in schema["items"]["required"], path


def test_names_are_camel_case() -> None:
    """Every field is named in camelCase, every enum of ours in one word."""
    assert [
        path for path, _ in _all_fields() if not _CAMEL.fullmatch(_name(path).rstrip("[]{}"))
    ] == []


def test_integers_have_a_unit_in_their_name() -> None:
    """An integer that has a unit says it at the end of its name; the others are listed here."""
    plain = {
        _name(path) for path, schema in _of_type("integer") if not path.endswith(("[]", "{}"))
    } - _UNITLESS
    assert [name for name in sorted(plain) if not _QUANTITIES.search(name)] == []


def test_nothing_newer_than_kubernetes_1_30_is_used() -> None:
    """Only words of a schema that every supported API server knows stand in it."""
    known = {
        *("type", "format", "description", "default", "enum", "required", "properties", "items"),
        *("additionalProperties", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
        *("minLength", "maxLength", "pattern", "minItems", "maxItems", "maxProperties"),
        *("x-kubernetes-int-or-string", "x-kubernetes-list-type", "x-kubernetes-list-map-keys"),
        "x-kubernetes-validations",
    }
    assert {word for _, schema in _all_fields() for word in schema} <= known


def test_the_definition_is_small() -> None:
    """It fits into the annotation of client-side `kubectl apply`, which is 256 KiB at most."""
    assert len(str(crd())) < 200_000


def _models(model: type[BaseModel], path: str) -> Iterator[tuple[str, type[Document]]]:
    """Yield every document of a model with the path that it stands at."""
    if not issubclass(model, Document):
        return
    yield path, model
    for name, field in model.model_fields.items():
        for inner in _classes(field.annotation):
            is_list = "list" in str(field.annotation)
            yield from _models(inner, f"{path}.{field.alias or name}{'[]' if is_list else ''}")


def _classes(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for each in getattr(annotation, "__args__", ()):
        yield from _classes(each)


def test_rules_are_the_models_constraints() -> None:
    """Every model's constraints are published where it stands, and none else but maps' keys'."""
    published = {
        (path, rule["rule"], rule["message"])
        for path, schema in _all_fields()
        for rule in schema.get("x-kubernetes-validations", ())
        if "additionalProperties" not in schema
    }
    constraints = {
        (path, rule.cel, rule.message)
        for root, name in ((RunSpec, "spec"), (RunStatus, "status"))
        for path, model in _models(root, name)
        for rule in model.constraints
    }
    assert constraints == published
    assert len(published) > 30


def test_every_rule_that_pydantic_holds_is_broken_by_a_row() -> None:
    """No rule is without a run in the table that breaks it, and it alone."""
    broken: set[str] = set()
    for row in rows():
        try:
            RunSpec.model_validate(row.run.get("spec"))
        except ValidationError as error:
            causes = [each.get("ctx", {}).get("error") for each in error.errors()]
            broken |= {
                fault.message.partition("; found")[0]
                for cause in causes
                if isinstance(cause, FaultsError)
                for fault in cause.faults
            }
    rules = {
        rule.message
        for _, model in _models(RunSpec, "spec")
        for rule in model.constraints
        if rule.holds is not None
    }
    assert rules - broken == set()


def test_every_pattern_is_described_in_words() -> None:
    """No one has to read a regular expression to learn what a field takes."""
    patterns = {schema["pattern"] for _, schema in _all_fields() if "pattern" in schema}
    assert patterns - MEANINGS.keys() == set()


@pytest.mark.parametrize("path", ["spec", "status"])
def test_metadata_is_left_to_the_api_server(path: str) -> None:
    """The schema of the object says nothing about metadata but that it is an object."""
    assert run_schema()["properties"]["metadata"] == {"type": "object"}
    assert run_schema()["properties"][path]["type"] == "object"
