"""Finds the definitions of the objects that the Prometheus operator reads."""

from pathlib import Path

from support.cluster.binaries import module_folder
from support.cluster.pins import MODULES

MODULE = "github.com/prometheus-operator/prometheus-operator"
KINDS = ("podmonitors", "prometheusrules", "servicemonitors")


def definitions() -> list[Path]:
    """Return its CustomResourceDefinitions of KINDS, from its pinned Go module (5 MB, once)."""
    module = module_folder(MODULE, MODULES / "prometheus-operator")
    folder = module / "example" / "prometheus-operator-crd"
    return [folder / f"monitoring.coreos.com_{kind}.yaml" for kind in KINDS]
