"""`inferometer inspect`: operators, repeated patterns and weights of models, on one page."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from inferometer_cli.commands.layer_options import JsonOption, ModelsArgument
from inferometer_cli.exits import FailedError, RefusedError
from inferometer_cli.terminal import flushed_output, output_console, print_message, print_output

if TYPE_CHECKING:
    from inferometer_results.inspection.page import InspectedModel, Inspection

_MOST_BYTES = 1 << 40
_MOST_PRINTED = 10
_OutputOption = Annotated[
    Path, typer.Option("--output", "-o", metavar="FILE", help="Where to write the page.")
]


def inspect(
    models: ModelsArgument,
    *,
    output: _OutputOption = Path("inspect.html"),
    json: JsonOption = False,
) -> None:
    """Show operators, repeated patterns and weights of models, without running them.

    A pattern is a chain in which each operator is the only reader of the one before, such as Conv,
    BatchNormalization, Relu. The page has them all, and a histogram of each model's weights: what
    rounding them to 8 or 4 bits makes zero.
    """
    from inferometer_results.inspection.page import (
        inspection_document,
        inspection_of,
        render_inspection,
    )

    inspection = inspection_of(_inspect(models))
    if json:
        import orjson

        document = inspection_document(inspection)
        print_output(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode())
        return
    try:
        output.write_text(render_inspection(inspection), encoding="utf-8")
    except OSError as error:
        raise FailedError(f"Cannot write the page {output}: {error.strerror or error}.") from error
    _print(inspection)
    print_output(f"\npage  {output}")


def _inspect(names: list[str]) -> "list[InspectedModel]":
    """Read each model; name those that are refused, and go on. Raises RefusedError if all are."""
    from inferometer_analysis.patterns import OperatorNode
    from inferometer_analysis.weight_values import weight_values
    from inferometer_cli.local.layers import model_files
    from inferometer_models.errors import ModelRefusedError
    from inferometer_models.graph_file import read_graph
    from inferometer_models.inspection import parameter_count, weight_tensors, wiring
    from inferometer_results.inspection.page import InspectedModel

    found: list[InspectedModel] = []
    refused: list[str] = []
    files = model_files(names)
    for number, file in enumerate(files, 1):
        print_message(f"{number}/{len(files)} {file.stem}")
        try:
            graph = read_graph(file, max_bytes=_MOST_BYTES)
            found.append(
                InspectedModel(
                    name=file.stem,
                    size_bytes=graph.size_bytes,
                    parameters=parameter_count(graph),
                    nodes=[OperatorNode(*each) for each in wiring(graph)],
                    weights=weight_values(weight_tensors(graph)),
                )
            )
        except ModelRefusedError as error:
            refused.append(str(error))
    if not found:
        raise RefusedError(refused[0])
    for each in refused:
        print_message(f"left out: {each}")
    return found


def _print(inspection: "Inspection") -> None:
    from inferometer_cli.text_table import print_columns
    from inferometer_results.quantity import count_of, size

    models = [
        (each.name, count_of(each.parameters), size(each.size_bytes), str(len(each.nodes)))
        for each in inspection.models
    ]
    patterns = [
        (each.name, str(each.occurrences), str(each.models))
        for each in inspection.patterns[:_MOST_PRINTED]
    ]
    with flushed_output():
        console = output_console()
        print_columns([("MODEL", "PARAMETERS", "SIZE", "OPERATORS"), *models], console)
        if patterns:
            print_output("")
            print_columns([("PATTERN", "OCCURRENCES", "MODELS"), *patterns], console)
