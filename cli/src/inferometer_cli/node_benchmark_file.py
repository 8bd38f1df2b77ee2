"""Files of NodeBenchmarks."""

from pathlib import Path

from inferometer_api.nodes.benchmark import PRIMITIVE_FAMILIES, NodeBenchmark, unknown_begins
from inferometer_api.spec.reading import InvalidRunError, parse_document
from inferometer_api.spec.yaml_text import UnreadableTextError, read_yaml
from inferometer_cli.exits import RefusedError
from inferometer_cli.run_file import read_text


def read_node_benchmark(file: Path) -> NodeBenchmark | None:
    """Return the NodeBenchmark in a file, None if it holds something else.

    Raises RefusedError.
    """
    text = read_text(file)
    try:
        data = read_yaml(text).data
    except UnreadableTextError:
        return None
    if not isinstance(data, dict) or data.get("kind") != NodeBenchmark.__name__:
        return None
    try:
        benchmark = parse_document(text, NodeBenchmark, source=str(file))
    except InvalidRunError as error:
        raise RefusedError(str(error)) from error
    if unknown := unknown_begins(benchmark.spec.only):
        raise RefusedError(
            f"{file} is not a valid NodeBenchmark: spec.only: no name of a primitive or figure "
            f"begins with {' or '.join(unknown)}. Their names begin with "
            f"{', '.join(PRIMITIVE_FAMILIES)}."
        )
    return benchmark
