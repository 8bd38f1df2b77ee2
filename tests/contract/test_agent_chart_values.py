"""Values that the agents' chart does not know, or that cannot be right, are refused by name."""

import pytest
import yaml

from support.agent_chart import AGENT_CHART, agents
from support.chart import CHART, Json, check_named, check_schema

REFUSED: list[tuple[Json, str, str]] = [
    ({"source": {"rapl": False}}, "", "source"),
    ({"sources": {"dcgm": True}}, "/sources", "dcgm"),
    ({"sources": {"rapl": "no"}}, "/sources/rapl", "boolean"),
    ({"operators": ["inferometer-operator"]}, "/operators/0", "object"),
    ({"operators": [{"namespace": "bench"}]}, "/operators/0", "serviceAccount"),
    ({"intervalSeconds": 0}, "/intervalSeconds", "minimum"),
    ({"cgroupV1Controllers": ["../.."]}, "/cgroupV1Controllers/0", "pattern"),
    ({"gpuNodes": {"label": {"key": "a b", "value": "c"}}}, "/gpuNodes/label/key", "pattern"),
    ({"gpuNodes": {"privileged": True}}, "/gpuNodes", "privileged"),
    ({"images": {"agent": {"digest": "sha256:short"}}}, "/images/agent/digest", "pattern"),
    ({"agent": {"port": 80}}, "/agent/port", "minimum"),
    ({"agent": {"maxUnavailable": "many"}}, "/agent/maxUnavailable", "pattern"),
    ({"agent": {"tolerations": [{"effect": "No"}]}}, "/agent/tolerations/0/effect", "NoSchedule"),
    ({"metrics": {"podMonitor": {"interval": "five"}}}, "/metrics/podMonitor/interval", "pattern"),
    ({"metrics": {"podMonitor": {"interval": ""}}}, "/metrics/podMonitor/interval", "pattern"),
    ({"networkPolicy": {"create": 1}}, "/networkPolicy/create", "boolean"),
]


@pytest.mark.parametrize(("values", "place", "word"), REFUSED)
def test_a_wrong_value_is_refused_by_its_name(values: Json, place: str, word: str) -> None:
    """Helm names the place of a value that cannot be right, and what is wrong."""
    with pytest.raises(ValueError, match="values don't meet") as refused:
        agents(values)
    check_named(str(refused.value), place, word)


def test_the_schema_knows_every_value_and_no_other() -> None:
    """values.yaml names each value that the schema takes, down to the last, and nothing else."""
    check_schema(AGENT_CHART)


def test_the_charts_have_one_version() -> None:
    """The agents' chart carries the version of the operator's, and makes pods of its images."""
    own, other = (
        yaml.safe_load((chart / "Chart.yaml").read_text(encoding="utf-8"))
        for chart in (AGENT_CHART, CHART)
    )
    assert (own["version"], own["appVersion"]) == (other["version"], other["appVersion"])
    assert own["kubeVersion"] == other["kubeVersion"]
