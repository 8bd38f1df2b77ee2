"""The chart's objects for Prometheus and Grafana match what the components expose."""

import json
import re
import shlex
from pathlib import Path

import pytest
import yaml
from docgen.files import CHECKOUT

from inferometer_api.plan.cluster_objects import LOADGEN, RESULT, SERVER, labels
from inferometer_operator.settings import Settings
from support.agent_chart import agents
from support.chart import NAMESPACE, Json, helm, notes, objects_of, of_kind, rendered, settings_text
from support.dashboards import DASHBOARDS as BOARDS
from support.documented import commands

MEBIBYTE = 1 << 20
DASHBOARDS = sorted((CHECKOUT / "grafana" / "dashboards").glob("*.json"))
MONITORS: Json = {
    "metrics": {"serviceMonitor": {"create": True}, "podMonitor": {"create": True}},
}


def annotations(values: Json) -> dict[str, str]:
    """Return the annotations of the operator's pods."""
    (deployment,) = of_kind(rendered(values), "Deployment")
    found: dict[str, str] = deployment["spec"]["template"]["metadata"]["annotations"]
    return found


def settings(values: Json) -> Settings:
    """Return the settings that the operator is started with."""
    return Settings.model_validate(yaml.safe_load(settings_text(rendered(values))))


def test_annotations_lead_to_the_operators_metrics() -> None:
    """The operator's pods say where their metrics are, and pods of runs will, unless refused."""
    (deployment,) = of_kind(rendered(), "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    (port,) = container["ports"]
    found = annotations({})
    assert found["prometheus.io/scrape"] == "true"
    assert found["prometheus.io/port"] == str(port["containerPort"])
    assert found["prometheus.io/path"] == "/metrics"
    assert settings({}).metrics.scrape_annotations
    refused = {"metrics": {"scrapeAnnotations": False}}
    assert not any(name.startswith("prometheus.io/") for name in annotations(refused))
    assert not settings(refused).metrics.scrape_annotations


def test_nothing_is_found_twice() -> None:
    """What a monitor finds carries no annotations by which it would be found once more."""
    operators, runs = (
        {"metrics": {monitor: {"create": True}}} for monitor in ("serviceMonitor", "podMonitor")
    )
    assert "prometheus.io/scrape" not in annotations(operators)
    assert settings(operators).metrics.scrape_annotations
    assert "prometheus.io/scrape" in annotations(runs)
    assert not settings(runs).metrics.scrape_annotations


def test_annotations_of_the_admins_come_first() -> None:
    """What operator.podAnnotations says of scraping replaces what the chart would say."""
    values = {"operator": {"podAnnotations": {"prometheus.io/scrape": "false"}}}
    assert annotations(values)["prometheus.io/scrape"] == "false"


def test_the_operator_gets_the_agents_address() -> None:
    """Agents are named by their namespace; without it there are none."""
    assert settings({}).agent is None
    named = settings({"agent": {"namespace": "agents", "service": "watchers"}}).agent
    assert named is not None
    assert (named.namespace, named.service) == ("agents", "watchers")


def test_all_is_scraped_as_often_as_the_dashboards_begin_with() -> None:
    """Every monitor's interval is, by default, the first that each dashboard offers."""
    monitor = {"metrics": {"podMonitor": {"create": True}}}
    made = of_kind(rendered(MONITORS), "ServiceMonitor")
    made += of_kind([*rendered(MONITORS), *agents(monitor)], "PodMonitor")
    assert len(made) == 3
    specs = [each["spec"] for each in made]
    ends = [spec.get("endpoints") or spec["podMetricsEndpoints"] for spec in specs]
    found = {end["interval"] for each in ends for end in each}
    variables = [each for board in BOARDS.values() for each in board["templating"]["list"]]
    first = [each["options"][0]["value"] for each in variables if each["name"] == "scrape"]
    assert found == set(first)
    assert len(first) == len(BOARDS)


def test_values_of_a_release_without_telemetry_are_taken(tmp_path: Path) -> None:
    """Where an older release's values are used again, what they lack is off and nothing fails."""
    older: Json = dict.fromkeys(("agent", "rules", "dashboards"))
    older["metrics"] = dict.fromkeys(("scrapeAnnotations", "serviceMonitor", "podMonitor"))
    older["networkPolicies"] = {"create": True, "monitoringNamespaces": None}
    assert settings(older).agent is None
    assert not settings(older).metrics.scrape_annotations
    assert "prometheus.io/scrape" not in annotations(older)
    assert "agent.namespace is empty" in notes(older, tmp_path)


@pytest.mark.parametrize("folder", ["docs", "helm"])
def test_upgrade_commands_keep_new_values(folder: str) -> None:
    """`helm upgrade` keeps the user's values by --reset-then-reuse-values: new ones come too."""
    files = [file for file in (CHECKOUT / folder).rglob("*") if file.suffix in {".md", ".txt"}]
    texts = {file: file.read_text(encoding="utf-8") for file in files}
    assert any("--reset-then-reuse-values" in text for text in texts.values())
    assert [str(file) for file, text in texts.items() if "--reuse-values" in text] == []


@pytest.mark.parametrize("folder", ["docs", "helm"])
def test_values_in_brackets_are_quoted(folder: str) -> None:
    """A shell that takes [0] for a pattern, as zsh does, leaves the documented values alone."""
    files = [file for file in (CHECKOUT / folder).rglob("*") if file.suffix in {".md", ".txt"}]
    texts = [file.read_text(encoding="utf-8") for file in files]
    assert [found for text in texts for found in re.findall(r"--set [\w.]+[\[{]\S*", text)] == []


def test_the_service_monitor_finds_the_operator() -> None:
    """The ServiceMonitor takes the Service of the metrics, which it brings along, by its port."""
    objects = rendered(MONITORS)
    (monitor,) = of_kind(objects, "ServiceMonitor")
    (service,) = of_kind(objects, "Service")
    wanted = monitor["spec"]["selector"]["matchLabels"]
    assert wanted.items() <= service["metadata"]["labels"].items()
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    assert monitor["metadata"]["namespace"] == service["metadata"]["namespace"]


@pytest.mark.parametrize(
    ("chart", "kinds"),
    [
        ("inferometer", {"ServiceMonitor", "PodMonitor", "PrometheusRule"}),
        ("inferometer-agent", {"PodMonitor"}),
    ],
)
def test_what_the_how_to_sets_makes_the_monitors(chart: str, kinds: set[str]) -> None:
    """The documented values make monitors and rules that carry the label of a Prometheus."""
    commands_text = commands("docs/how-to/prometheus.md", "With the Prometheus operator")
    (command,) = (each for each in commands_text.split("helm upgrade") if f" helm/{chart} " in each)
    words = [word for word in shlex.split(command.replace("\\\n", " ")) if "=" in word]
    sets = [option for word in words for option in ("--set", word)]
    done = helm("template", chart, CHECKOUT / "helm" / chart, "--namespace", NAMESPACE, *sets)
    assert done.returncode == 0, done.stderr
    found = [
        each for each in objects_of(done.stdout) if each["apiVersion"] == "monitoring.coreos.com/v1"
    ]
    assert {each["kind"] for each in found} == kinds
    for each in found:
        assert each["metadata"]["labels"]["release"] == "kube-prometheus-stack"


@pytest.mark.parametrize(
    ("values", "where"),
    [
        ({}, {"matchNames": [NAMESPACE]}),
        ({"watchNamespace": "runs"}, {"matchNames": ["runs"]}),
        ({"mode": "Cluster"}, {"any": True}),
    ],
)
def test_the_pod_monitor_finds_the_pods_of_runs(values: Json, where: Json) -> None:
    """The PodMonitor takes load and server pods where runs are, and nothing else of a run."""
    (monitor,) = of_kind(rendered(MONITORS | values), "PodMonitor")
    spec = monitor["spec"]
    assert spec["namespaceSelector"] == where
    (among,) = spec["selector"]["matchExpressions"]
    assert among["operator"] == "In"
    for component, taken in ((LOADGEN, True), (SERVER, True), (RESULT, False)):
        found = labels("a-run", "3f2c0a7e-uid", component)
        assert spec["selector"]["matchLabels"].items() <= found.items()
        assert (found[among["key"]] in among["values"]) is taken


def test_the_rules_are_those_of_the_checkout() -> None:
    """The PrometheusRule holds every group of grafana/rules, with braces left to Prometheus."""
    (rule,) = of_kind(rendered({"rules": {"create": True}}), "PrometheusRule")
    files = (CHECKOUT / "grafana" / "rules" / f"{name}.yaml" for name in ("recording", "alerts"))
    groups = [yaml.safe_load(file.read_text(encoding="utf-8"))["groups"] for file in files]
    assert rule["spec"]["groups"] == [group for each in groups for group in each]


@pytest.mark.parametrize("file", DASHBOARDS, ids=lambda file: file.stem)
def test_each_dashboard_is_installed_as_it_stands(file: Path) -> None:
    """Grafana's sidecar finds each dashboard by its label, unchanged and in one ConfigMap."""
    values = {"dashboards": {"create": True, "namespace": "grafana", "folder": "Benchmarks"}}
    (found,) = (each for each in dashboards(values) if file.name in each["data"])
    assert found["metadata"]["namespace"] == "grafana"
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert found["metadata"]["annotations"] == {"grafana_folder": "Benchmarks"}
    assert found["data"][file.name] == file.read_text(encoding="utf-8")
    assert len(json.dumps(found)) < MEBIBYTE


def test_no_dashboard_is_left_out() -> None:
    """There are as many ConfigMaps as dashboards, in the release's namespace by default."""
    made = dashboards({"dashboards": {"create": True}})
    assert len(made) == len(DASHBOARDS) > 0
    assert {each["metadata"]["namespace"] for each in made} == {NAMESPACE}
    assert dashboards({}) == []


def dashboards(values: Json) -> list[Json]:
    """Return the ConfigMaps of dashboards."""
    found = of_kind(rendered(values), "ConfigMap")
    return [each for each in found if "-dashboard-" in each["metadata"]["name"]]


def test_the_token_of_the_metrics_reaches_operator_and_prometheus() -> None:
    """The operator reads the file that the Secret is mounted as; the monitor sends its content."""
    secret = {"name": "scrape", "key": "bearer"}
    values = {"metrics": {"tokenSecret": secret, "serviceMonitor": {"create": True}}}
    objects = rendered(values)
    (deployment,) = of_kind(objects, "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    (volume,) = (each for each in pod["volumes"] if "secret" in each)
    (mounted,) = (
        each for each in pod["containers"][0]["volumeMounts"] if each["name"] == volume["name"]
    )
    (item,) = volume["secret"]["items"]
    assert (volume["secret"]["secretName"], item["key"]) == ("scrape", "bearer")
    settings = Settings.model_validate(yaml.safe_load(settings_text(objects)))
    assert settings.metrics.token_file == f"{mounted['mountPath']}/{item['path']}"
    (monitor,) = of_kind(objects, "ServiceMonitor")
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["authorization"] == {"credentials": secret}
