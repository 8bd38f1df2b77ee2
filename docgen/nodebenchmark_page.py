"""docs/reference/nodebenchmark.md: an example, every field, and the reasons."""

from docgen.benchmarkrun_page import field_sections
from docgen.field_tables import HEADER, Schema, appendix
from inferometer_api.nodes.benchmark import NODE_BENCHMARK_REASONS

EXAMPLE = """\
apiVersion: inferometer.dev/v1alpha1
kind: NodeBenchmark
metadata:
  name: workers
spec:
  nodeSelector: {kubernetes.io/arch: amd64}
  only: [stream, latency, gemm]          # absent: everything
  expirySeconds: 2592000
"""
_INTRODUCTION = """\
For people who measure what the nodes of a cluster give: an example, then every field with its type,
default and meaning. `kubectl explain nbm.spec` prints the same.
[What does this machine give?](../how-to/nodes.md) explains the figures."""


def nodebenchmark_page(definition: Schema) -> str:
    """Return the page, made from the CustomResourceDefinition."""
    version = definition["spec"]["versions"][0]
    properties = version["schema"]["openAPIV3Schema"]["properties"]
    lines = [
        *(f"<!-- {HEADER} -->", "# NodeBenchmark", "", _INTRODUCTION, ""),
        *("## Example", "", "```yaml", EXAMPLE.rstrip(), "```", ""),
        *field_sections("spec", properties["spec"]),
        "",
        *field_sections("status", properties["status"]),
        *("", "## Reasons of the conditions", "", "| reason | meaning |", "|---|---|"),
        *(f"| {reason} | {meaning} |" for reason, meaning in NODE_BENCHMARK_REASONS.items()),
    ]
    formats = appendix("\n".join(lines))
    return "\n".join([*lines, "", "## Appendix: formats", *formats]) + "\n"
