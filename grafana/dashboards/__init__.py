"""The dashboards, as the files that Grafana loads.

Each is a module of this folder, with its JSON next to it. `python -m grafana` writes the JSON here
and into the chart.
"""

import json

from grafana_foundation_sdk.builders.dashboard import Dashboard
from grafana_foundation_sdk.cog.encoder import JSONEncoder

from grafana.dashboards.compare import dashboard as compare
from grafana.dashboards.nodes import dashboard as nodes
from grafana.dashboards.operator import dashboard as operator
from grafana.dashboards.run import dashboard as run

DASHBOARDS = {
    "run": run,
    "compare": compare,
    "nodes": nodes,
    "operator": operator,
}
_FOLDERS = ("grafana/dashboards", "helm/inferometer/files/dashboards")


def files() -> dict[str, str]:
    """Return the text of each generated file by its path from the repository's root."""
    texts = {name: _text(make()) for name, make in DASHBOARDS.items()}
    return {f"{folder}/{name}.json": text for folder in _FOLDERS for name, text in texts.items()}


def _text(dashboard: Dashboard) -> str:
    return json.dumps(dashboard.build(), cls=JSONEncoder, indent=2, ensure_ascii=False) + "\n"
