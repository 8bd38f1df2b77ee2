"""Starts an installed Grafana with the dashboards, and removes its data afterwards."""

import os
import shutil
import socket
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from support.cluster.processes import Group
from support.waiting import wait_until

DASHBOARDS = Path(__file__).with_name("dashboards")
_READY_SECONDS = 180.0
"""The first start makes a database, which takes its time on a busy machine."""
_USUAL_HOME = Path("/usr/share/grafana")
_DEFAULTS = "conf/defaults.ini"
_PROGRAMS = {"grafana": ("server",), "grafana-server": ()}
"""Names of the program, with the word that makes it a server."""


@dataclass(frozen=True, slots=True)
class Installed:
    """A Grafana of this machine."""

    command: tuple[str, ...]
    """What starts its server."""
    home: Path
    """Where its pages and defaults are."""


def find_grafana() -> Installed | None:
    """Return the Grafana that GRAFANA_HOME names, else that of the PATH; None without one."""
    named = os.environ.get("GRAFANA_HOME", "")
    for name, words in _PROGRAMS.items():
        found = str(Path(named) / "bin" / name) if named else name
        program = shutil.which(found)
        if program is None:
            continue
        homes = (Path(named), Path(program).resolve().parents[1], _USUAL_HOME)
        home = next((each for each in homes if (each / _DEFAULTS).is_file()), None)
        if home is not None:
            return Installed((program, *words), home)
    return None


@contextmanager
def grafana(
    found: Installed, folder: Path, prometheus_url: str, scrape_seconds: int
) -> Iterator[str]:
    """Run it on loopback, everyone an administrator, with its data in `folder`; yield its URL."""
    _provision(folder / "provisioning", prometheus_url, scrape_seconds)
    port = _free_port()
    settings = {
        "GF_SERVER_HTTP_ADDR": "127.0.0.1",
        "GF_SERVER_HTTP_PORT": str(port),
        "GF_PATHS_DATA": str(folder / "data"),
        "GF_PATHS_LOGS": str(folder / "logs"),
        "GF_PATHS_PLUGINS": str(folder / "plugins"),
        "GF_PATHS_PROVISIONING": str(folder / "provisioning"),
        "GF_AUTH_ANONYMOUS_ENABLED": "true",
        "GF_AUTH_ANONYMOUS_ORG_ROLE": "Admin",
        "GF_ANALYTICS_ENABLED": "false",
        "GF_ANALYTICS_REPORTING_ENABLED": "false",
        "GF_ANALYTICS_CHECK_FOR_UPDATES": "false",
        "GF_ANALYTICS_CHECK_FOR_PLUGIN_UPDATES": "false",
        "GF_PLUGINS_PREINSTALL_DISABLED": "true",
        "GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH": str(DASHBOARDS / "run.json"),
    }
    words = [f"{name}={value}" for name, value in settings.items()]
    group = Group(folder / "group")
    url = f"http://127.0.0.1:{port}"
    try:
        process = group.start(
            "grafana", ["env", *words, *found.command, "--homepath", str(found.home)]
        )
        wait_until(
            lambda: _answers(url), "Grafana's health", [process], _READY_SECONDS, poll_seconds=0.5
        )
        yield url
    finally:
        group.stop()


def _provision(folder: Path, prometheus_url: str, scrape_seconds: int) -> None:
    source = {
        "name": "Prometheus",
        "type": "prometheus",
        "access": "proxy",
        "url": prometheus_url,
        "isDefault": True,
        "jsonData": {"httpMethod": "POST", "timeInterval": f"{scrape_seconds}s"},
    }
    provider = {
        "name": "inferometer",
        "type": "file",
        "folder": "Inferometer",
        "options": {"path": str(DASHBOARDS)},
    }
    for name, provisioning in {
        "datasources": {"apiVersion": 1, "datasources": [source]},
        "dashboards": {"apiVersion": 1, "providers": [provider]},
    }.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "inferometer.yaml").write_text(
            yaml.safe_dump(provisioning), encoding="utf-8"
        )


def _free_port() -> int:
    """Return a port that is free now, because Grafana does not report which port it chose."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/api/health", timeout=5):  # noqa: S310 - our own server's address
            return True
    except OSError:
        return False
