"""Runs at each bound of the published CustomResourceDefinition, and one past it.

Made by a walk over the schema, so that no bounded field can be forgotten; the judgement is the
schema's number, not a model's.
"""

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from inferometer_api.patterns import EXPORT_URI, SERVER_URL
from support.runs import Row, Run, a_run, a_scenario, an_external_run, with_value

Schema = dict[str, Any]
Place = tuple[str | int, ...]

CRD = Path(__file__).parents[2] / "crds" / "benchmarkruns.inferometer.dev.yaml"

_TOLERATION = {"key": "a", "value": "b", "effect": "NoExecute", "tolerationSeconds": 1}
_BARE_TOLERATION = {"key": "a"}
_CERTIFICATE = {"clientCertificateFile": "c", "clientKeyFile": "k"}
_HTTPS = {"uri": "https://h/m", "sha256": "0" * 64}
_S3 = {"uri": "s3://b/m", "credentialsSecret": "s"}
_TENSOR = {"name": "x", "datatype": "FP32", "shape": [1]}
_SERVICE = {"runtime": "External", "external": {"service": {"name": "s", "port": 1}}}
_MIX = [{"model": "a", "weight": 1}, {"model": "b", "weight": 1}]
_WITH_OTHERS = a_run(
    otherModels=[{"uri": "file:a"}],
    scenarios=[{"name": "a", "mix": _MIX, "singleStream": {}}],
)
_SAMPLED = {"dataset": {"uri": "file:a"}, "metrics": ["Top1"]}
_LONG = 604_800

_CARRIERS: dict[str, Run] = {
    "spec.model.sha256": a_run(model=_HTTPS),
    "spec.model.credentialsSecret": a_run(model=_S3),
    "spec.model.cache": a_run(model=_HTTPS),
    "spec.model.pipeline": a_run(
        model={"uri": "file:a", "manifest": {"uri": "file:m"}},
        scenarios=[{"name": "a", "singleStream": {}, "sampledAccuracy": _SAMPLED}],
    ),
    "spec.model.name": an_external_run(),
    "spec.model.version": an_external_run(),
    "spec.model.inputs": an_external_run(model={"name": "m", "inputs": [_TENSOR]}),
    "spec.model.outputs": an_external_run(model={"name": "m", "outputs": [_TENSOR]}),
    "spec.server.gpu": a_run(server={"device": "GPU", "gpu": {}}),
    "spec.server.batching": a_run(server={"batching": {"maxBatchSize": 1}}),
    "spec.server.placement.tolerations[]": a_run(
        server={"placement": {"tolerations": [_TOLERATION]}}
    ),
    "spec.server.placement.tolerations[].operator": a_run(
        server={"placement": {"tolerations": [_BARE_TOLERATION]}}
    ),
    "spec.server.placement.tolerations[].effect": a_run(
        server={"placement": {"tolerations": [_BARE_TOLERATION]}}
    ),
    "spec.server.tritonBackend": a_run(server={"runtime": "Triton"}),
    "spec.server.custom": a_run(server={"runtime": "Custom", "custom": {"name": "a"}}),
    "spec.server.onnxRuntime.interOpThreads": a_run(
        server={"onnxRuntime": {"executionMode": "Parallel"}}
    ),
    **{
        f"spec.server.onnxRuntime.{name}": a_run(server={"device": "GPU", "onnxRuntime": {}})
        for name in ("cudaGraph", "channelsLast", "tf32")
    },
    "spec.server.external": an_external_run(),
    "spec.server.external.service": an_external_run(server=_SERVICE),
    "spec.model.manifest": a_run(model={"uri": "file:m", "manifest": {"uri": "file:a"}}),
    "spec.load.inputs.file": a_run(load={"inputs": {"file": {"uri": "file:a"}}}),
    "spec.load.inputs.random": a_run(load={"inputs": {"random": {}}}),
    "spec.load.compression": a_run(load={"protocol": "GRPC"}),
    "spec.load.tracing": a_run(load={"tracing": {"sampleEvery": 1}}),
    "spec.load.tls.clientCertificateFile": a_run(load={"tls": _CERTIFICATE}),
    "spec.load.tls.clientKeyFile": a_run(load={"tls": _CERTIFICATE}),
    "spec.retention.export": a_run(
        retention={"export": {"uri": "s3://b/p", "credentialsSecret": "s"}}
    ),
    "spec.scenarios[].server": a_scenario(server={"targetQps": 1}),
    "spec.scenarios[].batch": a_scenario(batch={"batchSizes": [1]}),
    "spec.scenarios[].profile": a_scenario(profile={"batchSizes": [1]}),
    "spec.scenarios[].accuracy": a_scenario(
        accuracy={"dataset": {"uri": "file:a"}, "metrics": ["Top1"]}
    ),
    "spec.scenarios[].coldStart": a_scenario(coldStart={}),
    "spec.scenarios[].bound": a_scenario(bound={}),
    "spec.scenarios[].bricks": a_scenario(bricks={}),
    "spec.scenarios[].multiStream": a_scenario(multiStream={}),
    "spec.scenarios[].findPeak": a_scenario(
        findPeak={"latencyBoundMicroseconds": 1, "probe": {"maxSeconds": 86_400}}
    ),
    "spec.scenarios[].concurrency": a_scenario(concurrency={"clients": [1]}),
    "spec.scenarios[].offline": a_scenario(offline={}),
    "spec.scenarios[].burst": a_scenario(
        burst={"baseQps": 1, "burstQps": 2, "burstSeconds": 1, "periodSeconds": 86_400}
    ),
    "spec.scenarios[].trace": a_scenario(trace={"uri": "file:a"}),
    "spec.scenarios[].mix": a_scenario(singleStream={}, mix=_MIX),
    "spec.scenarios[].mix[].weight": a_scenario(singleStream={}, mix=_MIX),
    "spec.scenarios[].sampledAccuracy": a_scenario(
        singleStream={},
        sampledAccuracy={"dataset": {"uri": "file:a"}, "metrics": ["Top1"]},
    ),
    "spec.otherModels": _WITH_OTHERS,
    "spec.otherModels[].sha256": a_run(
        **{**_WITH_OTHERS["spec"], "otherModels": [_HTTPS]},
    ),
    "spec.scenarios[].mixWeights": a_scenario(
        singleStream={}, mix=[{"model": "a"}, {"model": "b"}], mixWeights="Zipf"
    ),
    "spec.validity.minDurationSeconds": a_run(validity={"maxDurationSeconds": _LONG}),
    "spec.validity.maxDurationSeconds": a_run(validity={"minDurationSeconds": 1}),
}
"""Valid runs in which a field, or what is below it, can stand."""

_PREFIXES = {SERVER_URL: "http://h/", EXPORT_URI: "s3://"}
"""Starts of the texts that a pattern takes."""
_NEEDS_OTHER_FIELD = (
    ("spec.server.runtime", "External"),
    ("spec.server.runtime", "Custom"),
    ("spec.server.onnxRuntime.provider", "CUDA"),
    ("spec.server.onnxRuntime.provider", "TensorRT"),
)
"""Values that are valid only with another field; they have rows of their own."""


@functools.cache
def crd() -> Schema:
    """Return the published CustomResourceDefinition."""
    found: Schema = yaml.load(CRD.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    return found


def run_schema() -> Schema:
    """Return the published schema of a BenchmarkRun."""
    found: Schema = crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return found


def fields(schema: Schema, path: str) -> Iterator[tuple[str, Schema]]:
    """Yield path and schema of every field, of list items (`[]`) and of map values (`{}`)."""
    yield path, schema
    for name, each in schema.get("properties", {}).items():
        yield from fields(each, f"{path}.{name}")
    if "items" in schema:
        yield from fields(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from fields(schema["additionalProperties"], f"{path}{{}}")


@functools.cache
def bound_rows() -> tuple[Row, ...]:
    """Return rows at and past each bound, and of each wrong type, of every field of the spec."""
    return tuple(
        row
        for path, schema in fields(run_schema()["properties"]["spec"], "spec")
        if path != "spec" and not path.endswith(("[]", "{}"))
        for row in _rows(path, schema)
    )


def _rows(path: str, schema: Schema) -> Iterator[Row]:
    carrier, place = _carrier(path), _place(path)
    required = path.rpartition(".")[2] in _parent(path).get("required", ())
    spelled_path = _spelt(place)
    for name, value, error_path in (
        *_at_bounds(schema, spelled_path),
        *_of_wrong_type(schema, spelled_path),
        ("null", None, spelled_path if required else ""),
    ):
        # A null in place of the one member of a union breaks the union, which has rows of its own.
        if value is None and not required and _chosen(carrier, place):
            continue
        if (path, value) in _NEEDS_OTHER_FIELD:
            continue
        yield Row(f"{path}: {name}", with_value(carrier, place, value), error_path or None)
    if "properties" in schema or _is_empty_object(schema):
        run = with_value(carrier, (*place, "misspelt"), 1)
        yield Row(f"{path}: a misspelt member", run, f"{spelled_path}.misspelt")


_NAMED_ITEMS: dict[str, tuple[str, Run]] = {
    "datatype": ("name", _TENSOR),
    "weight": ("model", {"weight": 1}),
    "uri": ("", {"uri": "file:m"}),
    "singleStream": ("name", {"singleStream": {}}),
    "operator": ("", {"operator": "Exists"}),
}
"""The field that names an item of a list, and its other fields, by a field that only it has."""
_Case = tuple[str, Any, str]
"""What is tried, the value, and the path that is named; empty if it is valid."""


def _at_bounds(schema: Schema, path: str) -> Iterator[_Case]:
    if "minimum" in schema:
        low, high = schema["minimum"], schema["maximum"]
        yield from ((str(n), n, "") for n in (low, high))
        yield from ((str(n), n, path) for n in (low - 1, high + 1))
    for value in schema.get("enum", ()):
        yield value, value, ""
        yield f"{value} misspelt", f"{value}x", path
    if schema.get("type") == "string" and "maxLength" in schema:
        make = _text_maker(schema)
        low, high = schema.get("minLength", 0), schema["maxLength"]
        yield f"{high} characters", make(high), ""
        yield f"{high + 1} characters", make(high + 1), path
        if low:
            yield "empty", "", path
    if schema.get("type") == "array":
        low, high = schema.get("minItems", 0), schema["maxItems"]
        yield f"{high} items", _items(schema, high), ""
        yield f"{high + 1} items", _items(schema, high + 1), path
        yield "no items", [], path if low else ""
        yield from _in_items(schema["items"], path)
    if "maxProperties" in schema:
        high, value = schema["maxProperties"], _value(schema["additionalProperties"])
        yield f"{high} keys", {f"k{n}": value for n in range(high)}, ""
        yield f"{high + 1} keys", {f"k{n}": value for n in range(high + 1)}, path


def _in_items(items: Schema, path: str) -> Iterator[_Case]:
    for value in items.get("enum", ()):
        yield f"[{value}]", [value], ""
        yield f"[{value} misspelt]", [f"{value}x"], f"{path}[0]"
    if "minimum" in items:
        low, high = items["minimum"], items["maximum"]
        yield from ((f"[{n}]", [n], "") for n in (low, high))
        yield from ((f"[{n}]", [n], f"{path}[0]") for n in (low - 1, high + 1))


def _of_wrong_type(schema: Schema, path: str) -> Iterator[_Case]:
    match schema.get("type"):
        case "integer":
            low = schema["minimum"]
            yield "an integral float", float(low), ""
            yield "a fraction", low + 0.5, path
            yield "a number as text", str(low), path
            yield "true", True, path
        case "boolean":
            yield "true as text", "true", path
            yield "1", 1, path
            yield from (("true", True, ""), ("false", False, ""))
        case "string":
            yield "a number", 5, path
            yield "true", True, path
            yield "a list", [], path
        case "array":
            yield "a mapping", {}, path
            yield "text", "a", path
        case "object":
            yield "a list", [], path
            yield "text", "a", path
            yield "a number", 1, path
        case _:
            pass  # integers or strings have rows by hand


def _text_maker(schema: Schema) -> Callable[[int], str]:
    """Return what makes a text of a length that the pattern takes."""
    pattern = schema.get("pattern", "")
    prefix = "file:" if "file:" in pattern else _PREFIXES.get(pattern, "")
    if "/)?" in pattern and not prefix:
        # A qualified name: at most 253 characters before the slash and 63 behind it.
        return lambda length: f"{'a' * (length - 64)}/{'a' * 63}"
    return lambda length: prefix + "a" * (length - len(prefix))


def _items(schema: Schema, count: int) -> list[Any]:
    items = schema["items"]
    if items.get("type") == "integer":
        return [items["minimum"] + n for n in range(count)]
    if "enum" in items:
        return [*items["enum"], *items["enum"]][:count]
    if items.get("type") == "string":
        return [f"zoo://a/b{n}" for n in range(count)]
    name, item = next(each for field, each in _NAMED_ITEMS.items() if field in items["properties"])
    return [item | ({name: f"s{n}"} if name else {}) for n in range(count)]


def _value(schema: Schema) -> Any:
    return [] if schema["type"] == "array" else "v"


def _carrier(path: str) -> Run:
    near = [each for each in _CARRIERS if path == each or path.startswith((f"{each}.", f"{each}["))]
    return _CARRIERS[max(near, key=len)] if near else a_run()


def _place(path: str) -> Place:
    place: list[str | int] = []
    for step in path.split("."):
        place.append(step.removesuffix("[]"))
        if step.endswith("[]"):
            place.append(0)
    return tuple(place)


def _spelt(place: Place) -> str:
    return "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in place).lstrip(".")


def _parent(path: str) -> Schema:
    schema = run_schema()
    for step in path.split(".")[:-1]:
        schema = schema["properties"][step.removesuffix("[]")]
        schema = schema["items"] if step.endswith("[]") else schema
    return schema


def _chosen(carrier: Run, place: Place) -> bool:
    here: Any = carrier
    for step in place:
        if isinstance(here, dict) and step not in here:
            return False
        here = here[step]
    return True


def _is_empty_object(schema: Schema) -> bool:
    return schema.get("type") == "object" and "additionalProperties" not in schema
