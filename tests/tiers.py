"""The tests of `make test`, the groups of `make verify`, and which change calls for which group.

Paths are relative to the checkout; `*` stands for any part of a path. Every test file belongs to
exactly one group, or else to the gate (tests/contract/test_tiers.py).
"""

import sys
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

PARALLEL = (
    "tests/unit/*",
    "tests/contract/*",
    "tests/virtual/*",
    "tests/api/*",
    "tests/local/test_wire_*.py",
    "tests/local/test_serving_*.py",
)
"""The gate's tests that run on all cores at once."""
SERIAL = ("tests/local/test_smoke.py", "tests/cluster/test_smoke.py")
"""The gate's tests that start whole runs, one after the other."""

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
    "packaging": (
        "tests/local/test_cli_wheel.py",
        "tests/local/test_report_browser.py",
        "tests/local/test_serving_perf_analyzer.py",
        "tests/cluster/test_images_content.py",
    ),
    "operator": (
        "tests/cluster/test_failures.py",
        "tests/cluster/test_chart_*.py",
        "tests/cluster/test_harness_*.py",
    ),
    "nodes": (
        "tests/cluster/test_examples_cluster.py",
        "tests/cluster/test_fleet_nodes.py",
        "tests/cluster/test_agent_chart_nodes.py",
    ),
    "dashboards": (
        "tests/cluster/test_dashboards.py",
        "tests/cluster/test_prometheus.py",
        "tests/local/test_demo_dashboards.py",
        "tests/local/test_prometheus_local.py",
    ),
}
"""The groups of `make verify`, in order; each takes at most 60 minutes."""

CHANGED: dict[str, tuple[str, ...]] = {
    "crds/*": ("local", "operator"),
    "loadgen/*": ("accuracy", "local"),
    "loadgen/src/inferometer_loadgen/fleet/*": ("nodes",),
    "operator/*": ("operator", "nodes"),
    "serving/*": ("local", "packaging"),
    "fetch/*": ("local", "nodes"),
    "models/*": ("local",),
    "telemetry/*": ("local", "nodes"),
    "cli/*": ("local", "packaging"),
    "results/*": ("local", "packaging"),
    "grafana/*": ("dashboards",),
    "helm/*": ("operator",),
    "images/*": ("packaging",),
    "examples/*": ("local", "nodes"),
    "pyproject.toml": ("packaging",),
}
"""The groups that a changed file requires, in addition to the group of a changed test."""


def files_of(patterns: Iterable[str]) -> list[str]:
    """Return the test files that match one of the patterns, in order of their names."""
    every = (str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py"))
    return sorted(file for file in every if matches(file, patterns))


def matches(file: str, patterns: Iterable[str]) -> bool:
    """Return whether a path matches one of the patterns."""
    return any(fnmatch(file, pattern) for pattern in patterns)


def groups_for(changed: Iterable[str]) -> list[str]:
    """Return the groups that these changed files call for, in the order of `make verify`."""
    files = list(changed)
    called = {
        group
        for pattern, groups in CHANGED.items()
        if any(fnmatch(file, pattern) for file in files)
        for group in groups
    }
    return [
        group
        for group, patterns in GROUPS.items()
        if group in called or any(matches(file, patterns) for file in files)
    ]


def gate(patterns: Iterable[str]) -> list[str]:
    """Return the test files of a part of the gate: those that no group of `make verify` has."""
    in_groups = {file for group in GROUPS.values() for file in files_of(group)}
    return [file for file in files_of(patterns) if file not in in_groups]


if __name__ == "__main__":
    parts = {"parallel": PARALLEL, "serial": SERIAL}
    sys.stdout.write(" ".join(gate(parts[sys.argv[1]])) + "\n")
