"""`inferometer spans`: shows and exports the traced queries and the profiles of a result."""

from typing import Annotated

import typer

from inferometer_api.results.result import ResultDocument
from inferometer_cli.cluster.options import (
    ClusterOptions,
    ContextOption,
    KubeconfigOption,
    NamespaceOption,
    ResultArgument,
)
from inferometer_cli.exits import RefusedError
from inferometer_cli.result_file import load_result
from inferometer_cli.span_export import (
    OtlpOption,
    PerfettoOption,
    check_exports,
    export_spans,
    has_spans,
)
from inferometer_cli.terminal import flushed_output, output_console, print_output

_TOP = 15
"""Layers in a table."""


def spans(  # noqa: PLR0913 - one argument for each option
    result: ResultArgument,
    *,
    perfetto: PerfettoOption = None,
    otlp: OtlpOption = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print traces and profiles as JSON instead of tables.")
    ] = False,
    namespace: NamespaceOption = None,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Show where traced queries spent their time: the slowest 1 % against the median, by part.

    A run traces its queries with spec.load.tracing, for instance
    `inferometer run FILE --set spec.load.tracing.sampleEvery=100`. The layers and kernels of a
    profile are shown and exported, too.
    """
    document = load_result(result, ClusterOptions(namespace, context, kubeconfig))
    if not has_spans(document):
        raise RefusedError(
            f"{result} has no traced queries and no profiled inference. Run it with "
            "spec.load.tracing, for instance --set spec.load.tracing.sampleEvery=100, or profile "
            "the model with `inferometer profile`."
        )
    check_exports(perfetto, otlp)
    if json:
        print_output(_json(document))
    else:
        from inferometer_cli.tables.profile import print_profiles
        from inferometer_cli.tables.spans import print_traces

        with flushed_output():
            print_traces(document, output_console())
            print_profiles(document, _TOP, output_console())
    export_spans(document, perfetto, otlp)


def _json(document: ResultDocument) -> str:
    import orjson

    rows = [
        {"scenario": scenario.name, "repeat": scenario.repeat, "step": step.label, **found}
        for scenario in document.scenarios
        for step in scenario.steps
        if (
            found := {
                name: part.model_dump(mode="json", by_alias=True)
                for name, part in (("tracing", step.tracing), ("profile", step.profile))
                if part is not None
            }
        )
    ]
    return orjson.dumps(rows, option=orjson.OPT_INDENT_2).decode()
