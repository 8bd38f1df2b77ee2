"""docs/reference/benchmarkrun.md: an example run, and every field of a BenchmarkRun."""

import re

from docgen.field_tables import FORMATS, HEADER, Schema, appendix, descendants, members, table
from docgen.refusals import refusals_section

EXAMPLE = """\
apiVersion: inferometer.dev/v1alpha1
kind: BenchmarkRun
metadata:
  name: resnet50-cpu
spec:
  model:
    uri: zoo://classification/resnet50   # built in; or https://, pvc://, s3://, file:
  server:
    runtime: OnnxRuntime                 # started for this run
    device: CPU
    resources: {cpu: "4", memory: 2Gi}
  load:
    protocol: HTTP                       # or GRPC
    connections: 8
  scenarios:                             # measured one after another
  - name: latency
    singleStream: {}                     # one query at a time
  - name: traffic
    server:                              # Poisson arrivals, whether or not the server keeps up
      targetQps: 20
      latencyBoundMicroseconds: 200000   # the P99 must not exceed 200 ms
  - name: capacity
    findPeak:                            # the highest rate within the bound
      latencyBoundMicroseconds: 200000
  validity:
    minDurationSeconds: 60               # a scenario that stops earlier is INVALID
"""
_INTRODUCTION = """\
For authors of run files: an example, then every field with its type, default and meaning.
`kubectl explain bmr.spec` prints the same. Only `model` and `scenarios` are required. A mistake is
rejected with its place and the fix, in a cluster and in a local run alike: unknown fields are
errors, and `null` means absent."""
_PATTERN = re.compile(r"matches (\^\S+\$)(?= |$)")
"""A regular expression in a message."""
_IMMUTABLE = " is immutable: create a new BenchmarkRun"


def benchmarkrun_page(definition: Schema) -> str:
    """Return the page, made from the CustomResourceDefinition."""
    version = definition["spec"]["versions"][0]
    properties = version["schema"]["openAPIV3Schema"]["properties"]
    lines = [
        *(f"<!-- {HEADER} -->", "# BenchmarkRun", "", _INTRODUCTION, ""),
        *("## Example", "", "```yaml", EXAMPLE.rstrip(), "```", ""),
        *("More: the numbered files in `examples/`, which `inferometer examples` prints.", ""),
        *field_sections("spec", properties["spec"]),
        *("", "## Not available in this version", "", refusals_section(), ""),
        *field_sections("status", properties["status"]),
    ]
    formats = appendix("\n".join(lines))
    return "\n".join([*lines, "", "## Appendix: formats", *formats]) + "\n"


def field_sections(name: str, section: Schema) -> list[str]:
    """Return the tables of an object's fields, a heading for each member with fields."""
    lines = [f"## {name}", "", section["description"], *table(members(section, name))]
    lines += ["", *rules] if (rules := _rules(section)) else []
    for member, schema in section["properties"].items():
        if rows := list(descendants(schema, f"{name}.{member}")):
            lines += ["", f"## {name}.{member}", "", schema["description"], *table(rows)]
            lines += ["", *rules] if (rules := _all_rules(schema, "")) else []
    return lines


def _all_rules(schema: Schema, place: str) -> list[str]:
    found = _rules(schema, place)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            found += _all_rules(schema[key], f"{place}[]")
    for name, each in schema.get("properties", {}).items():
        found += _all_rules(each, f"{place}.{name}".lstrip("."))
    return found


def _rules(schema: Schema, place: str = "") -> list[str]:
    """Return the rules of an object as a list; each names its place below the heading."""
    where = f"`{place}`: " if place else ""
    messages = [rule["message"] for rule in schema.get("x-kubernetes-validations", ())]
    fixed = [each.removesuffix(_IMMUTABLE) for each in messages if each.endswith(_IMMUTABLE)]
    rest = [each for each in messages if not each.endswith(_IMMUTABLE)]
    lines = [f"* {where}{_PATTERN.sub(_named, message)}." for message in rest]
    names = ", ".join(f"`{name}`" for name in fixed)
    return [*lines, *([f"* {where}Immutable: {names}."] if fixed else [])]


def _named(found: re.Match[str]) -> str:
    """Return what a value must be: a format of the appendix, or else an expression as code."""
    name = FORMATS.get(found[1])
    return f"matches `{found[1]}`" if name is None else f"is a {name}"
