"""docs/reference/benchmarksuite.md: an example suite, every field, and the reasons."""

import copy

from docgen.benchmarkrun_page import field_sections
from docgen.field_tables import HEADER, Schema, appendix
from inferometer_api.suite.status import SUITE_REASONS

EXAMPLE = """\
apiVersion: inferometer.dev/v1alpha1
kind: BenchmarkSuite
metadata:
  name: protocols
spec:
  template:                              # the run that each cell varies
    spec:
      model: {uri: "zoo://classification/resnet50"}
      scenarios:
      - name: latency
        singleStream: {}
  axes:                                  # each cell takes one value of each axis
  - name: model
    values:
    - {name: resnet50, set: {spec.model.uri: "zoo://classification/resnet50"}}
    - {name: mobilenet, set: {spec.model.uri: "zoo://classification/mobilenet_v2"}}
  - name: protocol
    values:
    - {name: http, set: {spec.load.protocol: HTTP}}
    - {name: grpc, set: {spec.load.protocol: GRPC}}
  repeats: 5                             # each cell 5 times, spread over the suite
  baseline: {axis: protocol, value: http}
  gate: {failIfSlowerPercent: 5}
"""
_INTRODUCTION = """\
For authors of suites: an example, then every field with its type, default and meaning.
`kubectl explain bms.spec` prints the same. A suite runs a BenchmarkRun for each cell of a matrix:
in a cluster after `kubectl apply`, on one machine by `inferometer run suite.yaml`.
`inferometer suite plan suite.yaml` prints the runs in their order."""


def benchmarksuite_page(definition: Schema) -> str:
    """Return the page, made from the CustomResourceDefinition."""
    version = definition["spec"]["versions"][0]
    properties = copy.deepcopy(version["schema"]["openAPIV3Schema"]["properties"])
    # The run's own page describes its fields.
    template = properties["spec"]["properties"]["template"]["properties"]["spec"]
    template.pop("properties")
    template.pop("x-kubernetes-validations", None)
    template["description"] += " See [BenchmarkRun](benchmarkrun.md#spec)."
    lines = [
        *(f"<!-- {HEADER} -->", "# BenchmarkSuite", "", _INTRODUCTION, ""),
        *("## Example", "", "```yaml", EXAMPLE.rstrip(), "```", ""),
        *field_sections("spec", properties["spec"]),
        "",
        *field_sections("status", properties["status"]),
        *("", "## Reasons of the conditions", "", "| reason | meaning |", "|---|---|"),
        *(f"| {reason} | {meaning} |" for reason, meaning in SUITE_REASONS.items()),
    ]
    formats = appendix("\n".join(lines))
    return "\n".join([*lines, "", "## Appendix: formats", *formats]) + "\n"
