"""Finds the definitions of the objects that the Prometheus operator reads."""

import json
import os
import subprocess
from pathlib import Path

from support.cluster import go_toolchain
from support.cluster.binaries import cache_folder
from support.cluster.pins import MODULES

MODULE = "github.com/prometheus-operator/prometheus-operator"
KINDS = ("podmonitors", "prometheusrules", "servicemonitors")


def definitions() -> list[Path]:
    """Return its CustomResourceDefinitions of KINDS, from its pinned Go module (5 MB, once)."""
    done = subprocess.run(
        [go_toolchain.go(cache_folder()), "mod", "download", "-json", MODULE],
        cwd=MODULES / "prometheus-operator",
        env=os.environ | {"GOTOOLCHAIN": "local", "GOWORK": "off"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{MODULE} was to be downloaded, and Go refused: {done.stdout[-2000:]}")
    folder = Path(json.loads(done.stdout)["Dir"]) / "example" / "prometheus-operator-crd"
    return [folder / f"monitoring.coreos.com_{kind}.yaml" for kind in KINDS]
