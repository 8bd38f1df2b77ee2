"""Writes the files that are generated from the models, or checks that they are up to date.

`python -m docgen` writes them into the checkout; with `--check` it only compares them.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from docgen.benchmarkrun_page import benchmarkrun_page
from docgen.benchmarksuite_page import benchmarksuite_page
from docgen.conditions_page import conditions_page
from docgen.field_tables import HEADER, Schema
from docgen.files import CHECKOUT, stale, write
from docgen.metrics_page import metrics_page
from docgen.nodebenchmark_page import nodebenchmark_page
from docgen.result_page import result_page
from docgen.result_schema import result_schema
from docgen.runtime_lists import RUNTIME_LISTS, runtime_lists
from docgen.zoo_names import zoo_names
from inferometer_api.crd import (
    NAME,
    NODE_BENCHMARK_NAME,
    SUITE_NAME,
    custom_resource_definition,
    node_benchmark_resource_definition,
    suite_resource_definition,
)


def generated_files() -> dict[str, str]:
    """Return the text of each generated file by its path in the checkout."""
    definition, suites = custom_resource_definition(), suite_resource_definition()
    schema = result_schema()
    nodes = node_benchmark_resource_definition()
    manifests = {
        NAME: _manifest(definition),
        SUITE_NAME: _manifest(suites),
        NODE_BENCHMARK_NAME: _manifest(nodes),
    }
    return {
        # A copy in the chart: a packed one holds nothing from outside its folder.
        **{f"crds/{name}.yaml": text for name, text in manifests.items()},
        **{f"helm/inferometer/files/{name}.yaml": text for name, text in manifests.items()},
        "crds/src/inferometer_api/spec/zoo_names.py": zoo_names(),
        RUNTIME_LISTS: runtime_lists(),
        "crds/result.schema.json": json.dumps({"$comment": HEADER, **schema}, indent=2) + "\n",
        "docs/reference/benchmarkrun.md": benchmarkrun_page(definition),
        "docs/reference/benchmarksuite.md": benchmarksuite_page(suites),
        "docs/reference/conditions.md": conditions_page(),
        "docs/reference/metrics.md": metrics_page(),
        "docs/reference/nodebenchmark.md": nodebenchmark_page(nodes),
        "docs/reference/result.md": result_page(schema),
    }


def _manifest(definition: Schema) -> str:
    text = yaml.safe_dump(definition, sort_keys=False, width=100, allow_unicode=True)
    return f"# {HEADER}\n{text}"


def stale_files(root: Path) -> tuple[str, ...]:
    """Return a sentence for each generated file that is absent or not what the models say."""
    return stale(generated_files(), root, "the models say")


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or check the generated files; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m docgen", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if a file is stale")
    parser.add_argument("--root", type=Path, default=CHECKOUT, help="the checkout")
    options = parser.parse_args(arguments)
    root: Path = options.root
    if not (root / "crds").is_dir():
        sys.stderr.write(f"{root} is no checkout of Inferometer: it has no crds/.\n")
        return 2
    if options.check:
        sentences = stale_files(root)
        sys.stderr.writelines(f"{sentence}\n" for sentence in sentences)
        return 1 if sentences else 0
    write(generated_files(), root)
    return 0


if __name__ == "__main__":
    sys.exit(main())
