"""`inferometer bricks generate` and `export`: the unique bricks of some models."""

from json import dumps
from pathlib import Path
from typing import Annotated

import typer

from inferometer_cli.commands.layer_options import (
    BatchSizeOption,
    GranularityOption,
    JsonOption,
    ModelsArgument,
    ShapeOption,
    ThreadsOption,
    describe_models,
    read_shapes,
)
from inferometer_cli.terminal import print_message, print_output


def generate(
    models: ModelsArgument,
    *,
    granularity: GranularityOption = None,
    batch_size: BatchSizeOption = 1,
    threads: ThreadsOption = 1,
    warm_up_shape: ShapeOption = None,
    json: JsonOption = False,
) -> None:
    """Show of how many unique bricks some models consist. Nothing is timed or written.

    A brick is a layer, or a short chain of layers, of the graph that ONNX Runtime runs after its
    own optimisation. Equal work is one brick, whatever its weights and its model.
    """
    from inferometer_api.layers.split import compose_suite, default_granularity, split
    from inferometer_cli.local.layers import LayerSettings, model_files

    granularity = granularity or default_granularity(threads)
    graphs = describe_models(
        model_files(models), LayerSettings(batch_size, threads, shapes=read_shapes(warm_up_shape))
    )
    rows = []
    for graph in graphs:
        uses = split(graph, granularity)
        rows.append((graph.model, len(graph.uses), len(uses), len({use.key for use in uses})))
    unique = len(compose_suite(graphs, granularity).bricks)
    total = sum(row[2] for row in rows)
    if json:
        names = ("model", "layers", "bricks", "unique")
        each = [dict(zip(names, row, strict=True)) for row in rows]
        print_output(dumps({"models": each, "bricks": total, "unique": unique}, indent=2))
        return
    width = max(len(row[0]) for row in rows)
    print_output(f"{'MODEL':{width}}  LAYERS  BRICKS  UNIQUE")
    for row in rows:
        print_output(f"{row[0]:{width}}  {row[1]:6}  {row[2]:6}  {row[3]:6}")
    if not total:
        print_output("\nThere is no layer: the models hand out what they are given.")
        return
    print_output(
        f"\n{unique:,} of {total:,} bricks are unique ({100 * unique / total:.0f} %). "
        "`inferometer bricks run` times each of them once."
    )


def export(  # noqa: PLR0913 - one argument for each option
    models: ModelsArgument,
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Where to write the bricks.")
    ],
    granularity: GranularityOption = None,
    batch_size: BatchSizeOption = 1,
    threads: ThreadsOption = 1,
    warm_up_shape: ShapeOption = None,
    json: JsonOption = False,
) -> None:
    """Write the unique bricks of some models to a file that others can run.

    The file has no names, weights, counts or order of layers, so that it shows no model. Layers
    that have a part of a model in their attributes, such as Loop, are left out and named. Bricks of
    several layers (--granularity above 1) show which layers follow each other within a chain.
    """
    from inferometer_analysis.bricks.export import exportable
    from inferometer_api.layers.split import compose_suite, default_granularity
    from inferometer_cli.exits import RefusedError
    from inferometer_cli.local.layers import LayerSettings, model_files, write_document

    if output.exists():
        raise RefusedError(f"{output} exists already. Name another file, or remove it.")
    graphs = describe_models(
        model_files(models), LayerSettings(batch_size, threads, shapes=read_shapes(warm_up_shape))
    )
    composed = compose_suite(graphs, granularity or default_granularity(threads))
    suite, operators = exportable(composed)
    if operators:
        count = len(composed.bricks) - len(suite.bricks)
        print_message(
            f"left out: {count} bricks with {', '.join(operators)}, whose attributes have graphs "
            "or parameters of a model"
        )
    if chains := sum(len(each.layers) > 1 for each in suite.bricks.values()):
        print_message(
            f"of the bricks, {chains:,} are chains of layers: they show what follows what in a "
            "model, which --granularity 1 hides too"
        )
    if not suite.bricks:
        raise RefusedError("No brick is left that shows no part of a model: there is no file.")
    write_document(output, suite)
    if json:
        print_output(dumps({"file": str(output), "bricks": len(suite.bricks)}))
        return
    print_output(
        f"{len(suite.bricks):,} bricks in {output}. Elsewhere: inferometer bricks run {output.name}"
    )
