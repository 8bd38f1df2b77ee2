"""The tests of `make test`, the groups of `make verify`, and which change calls for which group.

Paths are relative to the checkout; `*` stands for any part of a path. Every test file belongs to
exactly one group, or else to the gate (tests/contract/test_tiers.py).
"""

import ast
import sys
from collections.abc import Iterable
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

GATE = (
    "tests/cluster/test_smoke.py",
    "tests/local/test_smoke.py",
    "tests/api/*",
    "tests/local/test_wire_*.py",
    "tests/local/test_serving_*.py",
    "tests/local/test_fleet_port.py",
    "tests/virtual/*",
    "tests/contract/*",
    "tests/unit/*",
)
"""The gate's tests, those that wait longest first: short ones fill the cores at the end."""

GROUPS: dict[str, tuple[str, ...]] = {
    "accuracy": ("tests/accuracy/*",),
    "local": (
        "tests/local/test_loadgen_*.py",
        "tests/local/test_run_*.py",
        "tests/local/test_energy_*.py",
        "tests/local/test_agent*.py",
        "tests/local/test_models_run.py",
        "tests/local/test_fleet_local.py",
        "tests/local/test_cli_terminal.py",
    ),
    "models": ("tests/local/test_models_engines.py",),
    "analysis": ("tests/local/test_analysis_*.py",),
    "stacks": (
        "tests/local/test_stacks_*.py",
        "tests/api/test_operator_kserve.py",
        "tests/cluster/test_kserve.py",
        "tests/cluster/test_stacks.py",
    ),
    "tasks": (
        "tests/local/test_tasks_*.py",
        "tests/cluster/test_pipeline.py",
    ),
    "packaging": (
        "tests/local/test_cli_wheel.py",
        "tests/local/test_report_browser.py",
        "tests/local/test_serving_perf_analyzer.py",
        "tests/cluster/test_images_content.py",
    ),
    "operator": (
        "tests/api/test_operator_scale.py",
        "tests/api/test_operator_suspended.py",
        "tests/api/test_operator_lease_faults.py",
        "tests/api/test_operator_owners.py",
        "tests/api/test_operator_watches.py",
        "tests/local/test_export_faults.py",
        "tests/cluster/test_export.py",
        "tests/api/test_operator_crash_points.py",
        "tests/api/test_operator_nodes.py",
        "tests/cluster/test_failures.py",
        "tests/cluster/test_runs_apart.py",
        "tests/cluster/test_chart_*.py",
        "tests/cluster/test_harness_*.py",
        "tests/api/test_chart_upgrade.py",
        "tests/cluster/test_kueue.py",
    ),
    "nodes": (
        "tests/api/test_cold_start.py",
        "tests/api/test_node_*.py",
        "tests/cluster/test_cold_start.py",
        "tests/cluster/test_model_cache.py",
        "tests/cluster/test_model_cache_faults.py",
        "tests/cluster/test_node_benchmarks.py",
        "tests/cluster/test_examples_cluster.py",
        "tests/cluster/test_fleet_nodes.py",
        "tests/cluster/test_agent_chart_nodes.py",
    ),
    "results": (
        "tests/local/test_results_*.py",
        "tests/api/test_results_*.py",
        "tests/cluster/test_results_*.py",
    ),
    "suites": (
        "tests/api/test_suite_*.py",
        "tests/local/test_suites_*.py",
        "tests/cluster/test_suite*.py",
    ),
    "dashboards": (
        "tests/cluster/test_dashboards.py",
        "tests/cluster/test_prometheus.py",
        "tests/local/test_demo_dashboards.py",
        "tests/local/test_prometheus_local.py",
    ),
    "tools": ("tests/tools/*.py",),
    "gpu": ("tests/gpu/*.py",),
}
"""The groups of `make verify`, in order; each takes at most 60 minutes."""

_OF_IMAGES = ("packaging", "operator", "nodes")

CHANGED: dict[str, tuple[str, ...]] = {
    "crds/*": ("local", "operator"),
    "crds/src/inferometer_api/plan/*": ("nodes",),
    "crds/src/inferometer_api/results/*": ("packaging",),
    "crds/src/inferometer_api/metrics/*": ("dashboards",),
    "loadgen/*": ("accuracy", "local"),
    "loadgen/src/inferometer_loadgen/drive/*": ("stacks",),
    "loadgen/src/inferometer_loadgen/drive/driver.py": ("analysis",),
    "loadgen/src/inferometer_loadgen/requests/*": ("stacks",),
    "loadgen/src/inferometer_loadgen/server/*": ("stacks",),
    "loadgen/src/inferometer_loadgen/wire/*": ("stacks",),
    "loadgen/src/inferometer_loadgen/wire/*/connection.py": ("analysis",),
    "loadgen/src/inferometer_loadgen/wire_probe.py": ("analysis", "nodes"),
    "loadgen/src/inferometer_loadgen/tracing/*": ("analysis",),
    "loadgen/src/inferometer_loadgen/run/*tracing.py": ("analysis",),
    "serving/src/inferometer_serving/tracing.py": ("analysis",),
    "loadgen/src/inferometer_loadgen/fleet/*": ("nodes",),
    "loadgen/src/inferometer_loadgen/pod/*": ("nodes",),
    "loadgen/src/inferometer_loadgen/reporting/*": ("dashboards",),
    "operator/*": ("operator", "nodes"),
    "operator/src/inferometer_operator/manifests/server_job.py": ("tasks",),
    "operator/src/inferometer_operator/wiring/metrics.py": ("dashboards",),
    "serving/*": ("local", "packaging", "nodes"),
    "serving/src/inferometer_serving/layers/*": ("analysis",),
    "serving/src/inferometer_serving/model/*": ("analysis",),
    "serving/src/inferometer_serving/node/*": ("analysis",),
    "serving/src/inferometer_serving/gpu/*": ("gpu",),
    "serving/src/inferometer_serving/layers/gpu/*": ("gpu",),
    "serving/src/inferometer_serving/node/gpu/*": ("gpu",),
    "serving/src/inferometer_serving/model/onnx_runtime.py": ("gpu",),
    "serving/src/inferometer_serving/model/shared_weights.py": ("gpu",),
    "serving/src/inferometer_serving/profile/run_recorder.py": ("gpu",),
    "serving/src/inferometer_serving/profile/gpu_*": ("gpu",),
    "serving/src/inferometer_serving/profile/occupancy.py": ("gpu",),
    "serving/src/inferometer_serving/model/pipeline.py": ("tasks",),
    "serving/src/inferometer_serving/metrics.py": ("dashboards",),
    "fetch/*": ("local", "nodes"),
    "fetch/src/inferometer_fetch/export*.py": ("operator",),
    "models/*": ("local", "models"),
    "tasks/*": ("tasks",),
    "loadgen/src/inferometer_loadgen/task/*": ("tasks",),
    "telemetry/*": ("local", "nodes", "dashboards"),
    "cli/*": ("local", "packaging"),
    "cli/src/inferometer_cli/cluster/*": ("nodes",),
    "cli/src/inferometer_cli/preflight/*": ("nodes",),
    "cli/src/inferometer_cli/local/prometheus_targets.py": ("dashboards",),
    "analysis/*": ("analysis",),
    "results/*": ("local", "packaging"),
    "results/src/inferometer_results/explore/*": ("results",),
    "results/src/inferometer_results/export/otlp.py": ("analysis",),
    "results/src/inferometer_results/export/profile_*.py": ("analysis",),
    "results/src/inferometer_results/service/*": ("results",),
    "results/src/inferometer_results/store/*": ("results",),
    "results/src/inferometer_results/cluster/*": ("results",),
    "helm/inferometer-results/*": ("results",),
    "crds/src/inferometer_api/nodes/*": ("nodes", "analysis"),
    "crds/src/inferometer_api/suite/*": ("suites", "accuracy"),
    "crds/src/inferometer_api/judgement.py": ("accuracy",),
    "operator/src/inferometer_operator/reconcile/suite/*": ("suites",),
    "operator/src/inferometer_operator/wiring/suite/*.py": ("suites",),
    "operator/src/inferometer_operator/manifests/prefetch_job.py": ("suites",),
    "cli/src/inferometer_cli/local/suite/*.py": ("suites",),
    "results/src/inferometer_results/service/*/suites.py": ("suites",),
    "results/src/inferometer_results/service/api/reuse.py": ("suites",),
    "results/src/inferometer_results/store/reusable.py": ("suites",),
    "results/src/inferometer_results/suites/*": ("suites",),
    "grafana/*": ("dashboards",),
    "helm/inferometer/*": ("operator", "nodes", "dashboards"),
    "helm/inferometer-agent/*": ("nodes", "dashboards"),
    "images/*": _OF_IMAGES,
    "Dockerfile": _OF_IMAGES,
    "bootstrap.txt": _OF_IMAGES,
    ".dockerignore": _OF_IMAGES,
    "examples/*": ("local", "packaging", "nodes"),
    "examples/26-pipeline*": ("tasks",),
    "pyproject.toml": ("packaging",),
    "uv.lock": tuple(GROUPS),
    "docs/how-to/compare.md": ("accuracy",),
    "docs/explanation/differences.md": ("accuracy",),
    "docs/how-to/install.md": ("operator",),
    "docs/how-to/energy.md": ("nodes",),
    "docs/how-to/prometheus.md": ("dashboards",),
    "bench/ab_record.py": ("accuracy",),
    "bench/alarm_rules.py": ("accuracy",),
    "bench/case.py": ("packaging",),
    "bench/model_files.py": ("packaging",),
    "bench/perf_analyzer.py": ("packaging",),
    "bench/processes.py": ("packaging",),
    "bench/install-tools": ("packaging", "stacks"),
    "bench/servers.py": ("stacks",),
    "tests/data/ab/*": ("accuracy",),
    "tests/data/axe/*": ("results", "suites"),
    "tests/data/upgrade/*": ("operator",),
    "tests/install-tools": (*_OF_IMAGES, "stacks", "analysis"),
    "tests/support/cluster/__main__.py": ("operator",),
    "tests/support/cluster/modules/*": _OF_IMAGES,
    "tests/support/cluster/modules/kueue/*": ("operator",),
    "tests/support/cluster/modules/kserve/*": ("stacks",),
    "tests/support/cluster/modules/otel-collector/*": ("analysis",),
    "tests/support/cluster/modules/prometheus/*": ("dashboards",),
    "tests/support/nvml_stub.c": ("local",),
    "tests/mutants/*": ("tools",),
}
"""The groups that a changed file requires.

In addition, a changed test requires its own group, and a changed Python file of `tests/` the groups
of the tests that import it.
"""

EXEMPT: dict[str, str] = {
    ".ci/*": "runs the gate",
    ".gitignore": "nothing reads it",
    "*.md": "contract tests check links, headings and tables",
    "docs/images/*": "pictures",
    "LICENSE": "text",
    "Makefile": "calls the commands that the tests run",
    "kind-config.yaml": "a contract test has kind's own decoder read it",
    "docgen/*": "the gate checks that what it generates is fresh",
    "bench/*": "`make bench` runs it",
    "tests/contract/rules/*": "for the gate",
    "tests/data/layers/*": "for the gate",
    "tests/data/profiles/*": "for the gate",
    "tests/data/nodes/*": "for the gate",
    "tests/data/figures/*": "for the gate",
    "tests/data/results/*": "for the gate",
    "tests/data/schemas/*": "for the gate",
    "tests/support/shifted_clock.c": "for the gate",
}
"""Why a change of a file that no pattern of CHANGED matches requires no group."""


def files_of(patterns: Iterable[str]) -> list[str]:
    """Return the test files that match one of the patterns, in order of their names."""
    every = (str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py"))
    return sorted(file for file in every if matches(file, patterns))


def matches(file: str, patterns: Iterable[str]) -> bool:
    """Return whether a path matches one of the patterns."""
    return any(fnmatch(file, pattern) for pattern in patterns)


def groups_for(changed: Iterable[str]) -> list[str]:
    """Return the groups that these changed files call for, in the order of `make verify`."""
    files = set(changed)
    called = {
        group
        for pattern, groups in CHANGED.items()
        if any(fnmatch(file, pattern) for file in files)
        for group in groups
    }
    return [
        group
        for group, patterns in GROUPS.items()
        if group in called or not files.isdisjoint(imported_by(files_of(patterns)))
    ]


def imported_by(tests: Iterable[str]) -> set[str]:
    """Return the files of `tests/` that some tests consist of: their own, and what they import.

    The conftest.py of every folder above a test counts.
    """
    found = set(tests)
    found |= {
        f"{folder}/conftest.py"
        for test in found
        for folder in Path(test).parents
        if (ROOT / folder / "conftest.py").is_file()
    }
    new = found
    while new:
        new = {each for file in new for each in _imports(file)} - found
        found |= new
    return found


@cache
def _imports(file: str) -> frozenset[str]:
    """Return the files of `tests/` whose modules a file imports."""
    modules: set[str] = set()
    for node in ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                modules |= {each.name for each in names}
            case ast.ImportFrom(module=str(module), names=names):
                modules |= {module, *(f"{module}.{each.name}" for each in names)}
            case _:
                pass
    paths = (f"tests/{module.replace('.', '/')}" for module in modules)
    return frozenset(f"{path}.py" for path in paths if (ROOT / f"{path}.py").is_file())


def gate() -> list[str]:
    """Return the test files of the gate, in its order: those that no group of `make verify` has."""
    in_groups = {file for group in GROUPS.values() for file in files_of(group)}
    every = (file for pattern in GATE for file in files_of([pattern]))
    return [file for file in every if file not in in_groups]


if __name__ == "__main__":
    sys.stdout.write(" ".join(gate()) + "\n")
