"""The CustomResourceDefinitions of BenchmarkRun, BenchmarkSuite and NodeBenchmark."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from inferometer_api.document import API_VERSION, Document
from inferometer_api.nodes.benchmark import NodeBenchmark
from inferometer_api.schema import structural_schema
from inferometer_api.spec.run import BenchmarkRun
from inferometer_api.suite.spec import BenchmarkSuite

GROUP, VERSION = API_VERSION.split("/")
PLURAL = "benchmarkruns"
NAME = f"{PLURAL}.{GROUP}"
SUITE_PLURAL = "benchmarksuites"
SUITE_NAME = f"{SUITE_PLURAL}.{GROUP}"
NODE_BENCHMARK_PLURAL = "nodebenchmarks"
NODE_BENCHMARK_NAME = f"{NODE_BENCHMARK_PLURAL}.{GROUP}"

_Column = tuple[str, str, str]
"""Heading, JSON path and description."""


@dataclass(frozen=True, slots=True)
class _Resource:
    """A kind, its names, and its columns in `kubectl get`."""

    model: type[Document]
    plural: str
    short_name: str
    columns: tuple[_Column, ...]
    wide_columns: tuple[_Column, ...]
    """Columns of `kubectl get --output wide`."""

    @property
    def kind(self) -> str:
        """Return the name of the kind."""
        return self.model.__name__


_RUN = _Resource(
    BenchmarkRun,
    PLURAL,
    "bmr",
    (
        ("Phase", ".status.phase", "A summary of the conditions."),
        (
            "Scenario",
            ".status.display.scenario",
            "The scenario now running; afterwards the headline scenario. The figures are its own.",
        ),
        ("Valid", ".status.display.valid", "VALID or INVALID: the verdict of the whole run."),
        ("QPS", ".status.display.qps", "Queries answered per second."),
        ("P99", ".status.display.p99", "99th percentile of the latency."),
        ("J/Inf", ".status.display.joulesPerInference", "Energy per inference."),
    ),
    (
        ("Node", ".status.display.nodes", "Node of the server; with several, how many more."),
        (
            "Model",
            ".spec.model['uri', 'name']",
            "URI of the model, or its name on an External server.",
        ),
        ("Runtime", ".spec.server.runtime", "The server under test."),
    ),
)
_SUITE = _Resource(
    BenchmarkSuite,
    SUITE_PLURAL,
    "bms",
    (
        ("Phase", ".status.phase", "A summary of the conditions."),
        ("Cells", ".status.display.cells", "Runs that are over, of those planned."),
        ("Problems", ".status.display.problems", "Failed, INVALID and deleted runs."),
        ("Gate", ".status.display.gate", "Outcome of the gate."),
        ("Schedule", ".spec.schedule.cron", "When the suite is executed."),
    ),
    (
        ("Last", ".status.lastScheduleTime", "Time of the last execution."),
        ("Next", ".status.nextScheduleTime", "Time of the next execution."),
    ),
)
_NODE_BENCHMARK = _Resource(
    NodeBenchmark,
    NODE_BENCHMARK_PLURAL,
    "nbm",
    (
        ("Phase", ".status.phase", "A summary of the conditions."),
        ("Nodes", ".status.display.nodes", "Nodes that are over, of those that match."),
        ("Problems", ".status.display.problems", "Failed nodes, and nodes with cautions."),
        ("Memory", ".status.display.memory", "Memory bandwidth of the slowest and fastest node."),
    ),
    (("Expires", ".status.expiryTime", "From when on the figures no longer count."),),
)


def custom_resource_definition() -> dict[str, Any]:
    """Return the CustomResourceDefinition of BenchmarkRun, made from the pydantic models."""
    return _definition(_RUN)


def suite_resource_definition() -> dict[str, Any]:
    """Return the CustomResourceDefinition of BenchmarkSuite, made from the pydantic models."""
    found = _definition(_SUITE)
    spec = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    # A schedule's template may be changed: only a run is immutable.
    _drop_transition_rules(spec["properties"]["template"])
    return found


def node_benchmark_resource_definition() -> dict[str, Any]:
    """Return the CustomResourceDefinition of NodeBenchmark, made from the pydantic models."""
    return _definition(_NODE_BENCHMARK)


def _definition(resource: _Resource) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": resource.kind,
                "listKind": f"{resource.kind}List",
                "plural": resource.plural,
                "singular": resource.kind.lower(),
                "shortNames": [resource.short_name],
                "categories": ["inferometer"],
            },
            "scope": "Namespaced",
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": _columns(resource),
                    "schema": {"openAPIV3Schema": _root(resource)},
                }
            ],
        },
    }


def _columns(resource: _Resource) -> list[dict[str, Any]]:
    age = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
    wide = [{**each, "priority": 1} for each in _described(resource.wide_columns)]
    return [*_described(resource.columns), age, *wide]


def _described(columns: Sequence[_Column]) -> list[dict[str, Any]]:
    return [
        {"name": name, "type": "string", "jsonPath": path, "description": text}
        for name, path, text in columns
    ]


def _root(resource: _Resource) -> dict[str, Any]:
    """Return the schema of the object. The API server validates metadata itself."""
    spec, status = (_model(resource.model, name) for name in ("spec", "status"))
    return {
        "description": resource.model.__doc__,
        "type": "object",
        "properties": {
            "apiVersion": {
                "description": "APIVersion defines the versioned schema of this representation of "
                f"an object. Always {API_VERSION}.",
                "type": "string",
            },
            "kind": {
                "description": "Kind is the REST resource that this object represents. Always "
                f"{resource.kind}.",
                "type": "string",
            },
            "metadata": {"type": "object"},
            "spec": structural_schema(spec, path="spec", defaults_in_lists=False),
            "status": structural_schema(status, path="status"),
        },
        "required": ["spec"],
    }


def _model(document: type[Document], field: str) -> type[Document]:
    """Return the model of a field, which may be optional."""
    annotation: Any = document.model_fields[field].annotation
    members = getattr(annotation, "__args__", (annotation,))
    found: type[Document] = members[0]
    return found


def _drop_transition_rules(schema: dict[str, Any]) -> None:
    """Drop the rules that compare an object with its old version, here and below."""
    rules = schema.get("x-kubernetes-validations")
    if rules is not None:
        kept = [rule for rule in rules if "oldSelf" not in rule["rule"]]
        schema.pop("x-kubernetes-validations")
        if kept:
            schema["x-kubernetes-validations"] = kept
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            _drop_transition_rules(schema[name])
    for each in schema.get("properties", {}).values():
        _drop_transition_rules(each)
