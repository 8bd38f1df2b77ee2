"""The CustomResourceDefinition of BenchmarkRun."""

from typing import Any

from inferometer_api.document import API_VERSION
from inferometer_api.schema import structural_schema
from inferometer_api.spec.run import BenchmarkRun, RunSpec
from inferometer_api.status.run_status import RunStatus

GROUP, VERSION = API_VERSION.split("/")
PLURAL = "benchmarkruns"
NAME = f"{PLURAL}.{GROUP}"

_COLUMNS = (
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
)
_WIDE_COLUMNS = (
    ("Node", ".status.display.nodes", "Node of the server; with several, how many more."),
    ("Model", ".spec.model['uri', 'name']", "URI of the model, or its name on an External server."),
    ("Runtime", ".spec.server.runtime", "The server under test."),
)
"""Columns of `kubectl get --output wide`."""

_API_VERSION_HELP = (
    "APIVersion defines the versioned schema of this representation of an object. Always "
    f"{API_VERSION}."
)
_KIND_HELP = "Kind is the REST resource that this object represents. Always BenchmarkRun."


def custom_resource_definition() -> dict[str, Any]:
    """Return the CustomResourceDefinition of BenchmarkRun, made from the pydantic models."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": "BenchmarkRun",
                "listKind": "BenchmarkRunList",
                "plural": PLURAL,
                "singular": "benchmarkrun",
                "shortNames": ["bmr"],
                "categories": ["inferometer"],
            },
            "scope": "Namespaced",
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": _columns(),
                    "schema": {"openAPIV3Schema": _root()},
                }
            ],
        },
    }


def _columns() -> list[dict[str, Any]]:
    age = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
    wide = [{**_column(*each), "priority": 1} for each in _WIDE_COLUMNS]
    return [*(_column(*each) for each in _COLUMNS), age, *wide]


def _column(name: str, path: str, text: str) -> dict[str, Any]:
    return {"name": name, "type": "string", "jsonPath": path, "description": text}


def _root() -> dict[str, Any]:
    """Return the schema of the object. The API server validates metadata itself."""
    return {
        "description": BenchmarkRun.__doc__,
        "type": "object",
        "properties": {
            "apiVersion": {"description": _API_VERSION_HELP, "type": "string"},
            "kind": {"description": _KIND_HELP, "type": "string"},
            "metadata": {"type": "object"},
            "spec": structural_schema(RunSpec, path="spec", defaults_in_lists=False),
            "status": structural_schema(RunStatus, path="status"),
        },
        "required": ["spec"],
    }
