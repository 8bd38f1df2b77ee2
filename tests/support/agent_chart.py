"""What does the node agent's chart make of these values?"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import yaml

from inferometer_api.publish import CHECKOUT
from support.chart import Json, helm, of_kind

AGENT_CHART = CHECKOUT / "helm" / "inferometer-agent"
AGENTS = "inferometer-agents"
"""The namespace of the tests."""


def agents(values: Json | None = None, *, release: str = "inferometer-agent") -> list[Json]:
    """Return the objects that the chart makes without a cluster; an error of helm's is raised."""
    words = ("template", release, AGENT_CHART, "--namespace", AGENTS, "--values", "-")
    done = helm(*words, stdin=json.dumps(values or {}))
    if done.returncode != 0:
        raise ValueError(done.stderr)
    return [made for made in yaml.safe_load_all(done.stdout) if made]


def agents_notes(values: Json, folder: Path) -> str:
    """Return what an installation says at its end: a copy of the chart makes it an object."""
    chart = Path(shutil.copytree(AGENT_CHART, folder / "chart"))
    text = (chart / "templates" / "NOTES.txt").read_text(encoding="utf-8")
    (chart / "templates" / "notes.yaml").write_text(
        f'{{{{- define "notes" -}}}}{text}{{{{- end -}}}}\n'
        'notes: {{ include "notes" . | toJson }}\n',
        encoding="utf-8",
    )
    words = ("template", "inferometer-agent", chart, "--namespace", AGENTS, "--values", "-")
    done = helm(*words, "--show-only", "templates/notes.yaml", stdin=json.dumps(values))
    assert done.returncode == 0, done.stderr
    return str(yaml.safe_load(done.stdout)["notes"])


def agent_pods(objects: list[Json]) -> Iterator[tuple[str, Json]]:
    """Yield the name and the pods' spec of each DaemonSet."""
    for made in of_kind(objects, "DaemonSet"):
        yield made["metadata"]["name"], made["spec"]["template"]["spec"]
