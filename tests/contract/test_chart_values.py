"""Values that the chart does not know, or that cannot be right, are refused by their name."""

import tarfile
from pathlib import Path

import pytest
import yaml
from docgen.files import CHECKOUT

from inferometer_api.crd import NAME
from support.chart import CHART, Json, check_named, check_schema, helm, refusal

_IMAGE = f"registry.example.com/server@sha256:{64 * '0'}"
REFUSED: list[tuple[Json, str, str]] = [
    ({"replicas": 3}, "", "replicas"),
    ({"operator": {"replica": 3}}, "/operator", "replica"),
    ({"images": {"serving": {"name": "x"}}}, "/images/serving", "name"),
    (
        {"images": {"serving": {"engines": {"onnxruntime": "new"}}}},
        "/images/serving/engines/onnxruntime",
        "pattern",
    ),
    ({"mode": "cluster"}, "/mode", "'Namespaced', 'Cluster'"),
    ({"crds": {"install": "false"}}, "/crds/install", "boolean"),
    ({"images": {"pullPolicy": "Sometimes"}}, "/images/pullPolicy", "'Always'"),
    ({"images": {"loadgen": {"digest": "sha256:short"}}}, "/images/loadgen/digest", "pattern"),
    ({"images": {"tag": "two words"}}, "/images/tag", "pattern"),
    ({"images": {"registry": "https://registry.example.com"}}, "/images/registry", "pattern"),
    ({"images": {"registry": "registry.example.com/team//"}}, "/images/registry", "pattern"),
    ({"images": {"servers": {"triton": "mirror/triton"}}}, "/images/servers/triton", "pattern"),
    (
        {"images": {"serverEngines": {"triton": {"onnxruntime": "new"}}}},
        "/images/serverEngines/triton/onnxruntime",
        "pattern",
    ),
    ({"images": {"pullSecrets": ["Mine"]}}, "/images/pullSecrets/0", "pattern"),
    ({"maxConcurrentRuns": 0}, "/maxConcurrentRuns", "minimum"),
    ({"maxConcurrentRuns": "2"}, "/maxConcurrentRuns", "integer"),
    ({"ceilings": {"worker": 3}}, "/ceilings", "worker"),
    ({"ceilings": {"workers": -1}}, "/ceilings/workers", "minimum"),
    ({"ceilings": {"gpus": -1}}, "/ceilings/gpus", "minimum"),
    ({"ceilings": {"gpus": "none"}}, "/ceilings/gpus", "maxLength"),
    ({"ceilings": {"cpu": "many"}}, "/ceilings/cpu", "pattern"),
    ({"externalAllowList": "models.example.com"}, "/externalAllowList", "array"),
    ({"externalAllowList": ["http://models.example.com/v2"]}, "/externalAllowList/0", "pattern"),
    ({"allowedServers": {"A_B": {"image": _IMAGE}}}, "/allowedServers", "A_B"),
    (
        {"allowedServers": {"mine": {"image": _IMAGE, "arguments": [1_025 * "x"]}}},
        "/allowedServers/mine/arguments/0",
        "maxLength",
    ),
    (
        {"allowedServers": {"mine": {"image": _IMAGE, "env": {"WORD": 1_025 * "x"}}}},
        "/allowedServers/mine/env/WORD",
        "maxLength",
    ),
    (
        {"allowedServers": {"mine": {"image": _IMAGE, "modelFile": "/models"}}},
        "/allowedServers/mine/modelFile",
        "pattern",
    ),
    ({"allowSecrets": "yes"}, "/allowSecrets", "boolean"),
    ({"modelStorage": "ten gigabytes"}, "/modelStorage", "pattern"),
    ({"modelStorage": 10737418240}, "/modelStorage", "string"),
    ({"load": {"resources": {"cpus": 1}}}, "/load/resources", "cpus"),
    ({"load": {"tolerations": [{"effect": "No"}]}}, "/load/tolerations/0/effect", "'NoSchedule'"),
    ({"gpu": {"runtimeClass": "a b"}}, "/gpu/runtimeClass", "pattern"),
    ({"operator": {"replicas": 0}}, "/operator/replicas", "minimum"),
    ({"networkPolicies": {"apiServerPorts": [70000]}}, "/networkPolicies/apiServerPorts/0", "max"),
    ({"agent": {"namespace": "Agents"}}, "/agent/namespace", "pattern"),
    ({"agent": {"service": ""}}, "/agent/service", "pattern"),
    ({"metrics": {"podMonitor": {"interval": "5"}}}, "/metrics/podMonitor/interval", "pattern"),
    ({"metrics": {"scrapeAnnotations": "no"}}, "/metrics/scrapeAnnotations", "boolean"),
    ({"rules": {"labels": {"a": 1}}}, "/rules/labels/a", "string"),
    ({"dashboards": {"label": "two words"}}, "/dashboards/label", "pattern"),
    ({"test": {"timeoutSeconds": 1}}, "/test/timeoutSeconds", "minimum"),
]


@pytest.mark.parametrize(("values", "place", "word"), REFUSED)
def test_a_wrong_value_is_refused_by_its_name(values: Json, place: str, word: str) -> None:
    """Helm names the place of a value that cannot be right, and what is wrong."""
    check_named(refusal(values), place, word)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (
            {"mode": "Cluster", "watchNamespace": "mine"},
            'watchNamespace is "mine", but with mode Cluster every namespace is served',
        ),
        (
            {"serviceAccount": {"create": False}},
            "serviceAccount.create is false: name the account that exists",
        ),
    ],
)
def test_values_that_contradict_each_other_are_refused(values: Json, sentence: str) -> None:
    """What no schema can express is refused with a message."""
    assert sentence in refusal(values)


def test_the_schema_knows_every_value_and_no_other() -> None:
    """values.yaml names each value that the schema takes, down to the last, and nothing else."""
    check_schema(CHART, free="operator.resources")


def test_a_packed_chart_is_whole(tmp_path: Path) -> None:
    """`helm package` takes along the definition, the test's script and the schema, as files."""
    assert helm("package", CHART, "--destination", tmp_path).returncode == 0
    (archive,) = tmp_path.glob("*.tgz")
    with tarfile.open(archive) as packed:
        held = {member.name: member for member in packed.getmembers()}
        definition = packed.extractfile(held[f"inferometer/files/{NAME}.yaml"])
        assert definition is not None
        published = CHECKOUT / "crds" / f"{NAME}.yaml"
        assert definition.read() == published.read_bytes()
    assert all(member.isfile() for member in held.values())
    assert {
        "inferometer/files/first_run.py",
        "inferometer/files/rules/alerts.yaml",
        "inferometer/files/dashboards/run.json",
        "inferometer/values.schema.json",
    } <= set(held)


def test_chart_and_distribution_have_one_version() -> None:
    """Chart, appVersion and the Python distribution carry the same version."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    pyproject = (CHECKOUT / "pyproject.toml").read_text(encoding="utf-8")
    assert f'\nversion = "{chart["version"]}"\n' in pyproject
    assert chart["appVersion"] == chart["version"]
