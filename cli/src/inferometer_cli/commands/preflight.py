"""`inferometer preflight`: what would prevent a run in a cluster, before it starts."""

from pathlib import Path
from typing import Annotated

import typer

from inferometer_cli.cluster.options import (
    ClusterOptions,
    ContextOption,
    KubeconfigOption,
    NamespaceOption,
)
from inferometer_cli.exits import ExitCode
from inferometer_cli.node_benchmark_file import read_node_benchmark
from inferometer_cli.run_file import parse_run_file
from inferometer_cli.suite_file import read_suite
from inferometer_cli.terminal import print_output


def preflight(
    file: Annotated[
        Path | None,
        typer.Option(
            "--filename",
            "-f",
            metavar="FILE",
            help="The file of the BenchmarkRun, BenchmarkSuite or NodeBenchmark to check.",
        ),
    ] = None,
    namespace: NamespaceOption = None,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Check what would prevent a run in a cluster, before it starts.

    The checks cover the spec, the objects that it names, the operator, quotas, images and nodes.
    Of a BenchmarkSuite every cell is checked; a line that holds for some cells names the first. Of
    a NodeBenchmark the matching nodes are listed.
    Each line is one check: ok, warning, blocked, or unknown. Nothing in the cluster is changed.
    Exits with 0 if nothing blocks the run, else with 2.
    """
    from inferometer_cli.cluster.api import connect
    from inferometer_cli.preflight.assess import assess
    from inferometer_cli.preflight.check import lines, summary
    from inferometer_cli.preflight.node_benchmarks import assess_node_benchmark
    from inferometer_cli.preflight.suites import assess_suite

    suite = None if file is None else read_suite(file)
    nodes = None if file is None else read_node_benchmark(file)
    run = parse_run_file(file) if file is not None and not (suite or nodes) else None
    document = suite or nodes or run
    target_namespace = namespace or (None if document is None else document.metadata.namespace)
    cluster = connect(ClusterOptions(target_namespace, context, kubeconfig))
    if suite is not None:
        checks = list(assess_suite(cluster, suite))
    elif nodes is not None:
        checks = list(assess_node_benchmark(cluster, nodes))
    else:
        checks = list(assess(cluster, run))
    what = f"{file or 'a run with defaults'} in namespace {cluster.namespace}"
    print_output("\n".join((*lines(checks), "", summary(checks, what))))
    if any(check.state == "blocked" for check in checks):
        raise typer.Exit(ExitCode.REFUSED)
