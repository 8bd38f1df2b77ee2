"""Recording rules compute what they describe, and each alert fires only when it should."""

import json
import re
from pathlib import Path
from typing import get_args

import pytest
import yaml
from docgen.files import CHECKOUT
from grafana.rules import files

from inferometer_api.metrics.definitions import METRICS, Metric
from inferometer_cli.local.prometheus_targets import Component
from support.prometheus import Json, check
from support.slower_runs import courses

RULES = CHECKOUT / "grafana" / "rules"
TESTS = Path(__file__).with_name("rules")
PAGE = CHECKOUT / "docs" / "how-to" / "prometheus.md"
SUFFIXES = ("_bucket", "_sum", "_count")
EVERYWHERE = {"namespace", "job", "instance", "component", "quantile", "le"}
"""Labels of the scrape's, of a recording rule's, of a histogram's buckets."""


def rules() -> list[Json]:
    """Return every rule of every group."""
    groups = [
        group
        for file in sorted(RULES.glob("*.yaml"))
        for group in yaml.safe_load(file.read_text(encoding="utf-8"))["groups"]
    ]
    return [rule for group in groups for rule in group["rules"]]


def alerts() -> list[str]:
    """Return the names of all alerts."""
    return [rule["alert"] for rule in rules() if "alert" in rule]


def named(expression: str) -> set[str]:
    """Return the metrics of ours that an expression names, without what recording rules make."""
    return set(re.findall(r"(?<![\w:])inferometer_\w+(?![\w:])", expression))


def metric(name: str) -> Metric | None:
    """Return the metric that has time series of this name."""
    known = {each.name: each for component in METRICS.values() for each in component}
    for suffix in SUFFIXES:
        found = known.get(name.removesuffix(suffix))
        if name.endswith(suffix) and found is not None and found.type == "histogram":
            return found
    return known.get(name)


def test_prometheus_takes_the_rules() -> None:
    """`promtool check rules` finds nothing to complain of, not even in its lint."""
    done = check("check", "rules", "--lint=all", "--lint-fatal", *sorted(RULES.glob("*.yaml")))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("file", sorted(TESTS.glob("*.test.yaml")), ids=lambda file: file.name)
def test_the_rules_pass_their_unit_tests(file: Path) -> None:
    """Given time series with known figures, promtool finds the expected series and alerts."""
    done = check("test", "rules", file)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_regression_is_distinguished_from_chance(tmp_path: Path) -> None:
    """The alert fires above all of five earlier runs on that node and 10 %, for each course."""
    files = [str(file) for file in sorted(RULES.glob("*.yaml"))]
    unit_tests = {"rule_files": files, "evaluation_interval": "10s", "tests": courses()}
    (tmp_path / "slower.test.yaml").write_text(json.dumps(unit_tests))
    done = check("test", "rules", tmp_path / "slower.test.yaml")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("alert", alerts())
def test_each_alert_is_seen_to_fire_and_not_to_fire(alert: str) -> None:
    """For each alert there is a course of events that fires it, and one that does not."""
    unit_tests = yaml.safe_load((TESTS / "alerts.test.yaml").read_text(encoding="utf-8"))
    cases = [
        bool(case["exp_alerts"])
        for test in unit_tests["tests"] + courses()
        for case in test["alert_rule_test"]
        if case["alertname"] == alert
    ]
    assert {True, False} == set(cases)


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.get("alert") or rule["record"])
def test_rules_name_metrics_that_there_are(rule: Json) -> None:
    """Every metric in an expression is one that a component exposes, with the labels used."""
    expression = rule["expr"]
    found = {name: metric(name) for name in named(expression)}
    assert None not in found.values(), found
    computed = {each["record"] for each in rules() if "record" in each}
    assert set(re.findall(r"\b\w+:inferometer_\w+:\w+\b", expression)) <= computed
    known = {label for each in found.values() if each for label in each.labels} | EVERYWHERE
    for name in re.findall(r"run:|run_step:|spec_node_step:|node_kind:", expression):
        known |= {"run_namespace", "run"} | (
            {"scenario", "step", "spec_hash", "run_uid", "node"} if "step" in name else set()
        )
    lists = re.findall(r"(?:by|on|group_left)\s*\(([^()]*)\)", expression)
    used = {label.strip() for each in lists for label in each.split(",") if label.strip()}
    used |= set(re.findall(r"[{,]\s*(\w+)\s*(?:=|!=|=~|!~)\s*\"", expression))
    assert used <= known, used - known


def test_agents_of_local_runs_have_the_component_of_the_targets_file() -> None:
    """Rules that leave them out go by the name that --prometheus-targets gives them."""
    names = {name for rule in rules() for name in re.findall(r'component!="([^"]*)"', rule["expr"])}
    assert names == {"node agent"}
    assert names < set(get_args(Component))


@pytest.mark.parametrize("alert", alerts())
def test_each_alert_has_a_runbook(alert: str) -> None:
    """Each alert points to a section of the how-to, which is there and says something."""
    (rule,) = (each for each in rules() if each.get("alert") == alert)
    assert rule["annotations"]["runbook"] == f"docs/how-to/prometheus.md#{alert.lower()}"
    section = PAGE.read_text(encoding="utf-8").partition(f"### {alert}\n")[2]
    assert len(re.split(r"^#", section, maxsplit=1, flags=re.MULTILINE)[0]) > 100


def test_the_chart_has_the_same_rules() -> None:
    """The files in the checkout are what the code says, the chart's copies too."""
    for name, text in files().items():
        assert (CHECKOUT / name).read_text(encoding="utf-8") == text, name
