"""How does Prometheus find what a pod tells of its work?

A PodMonitor by the pod's labels and the port's name; where there is none, by annotations.
"""

from inferometer_operator.manifests.owner import Manifest
from inferometer_operator.settings import Settings

SCRAPED_PORT = "http"
"""The name of the port, of servers and load generators alike."""
_PATH = "/metrics"


def scrape_annotations(port: int, settings: Settings) -> Manifest:
    """Return what is added to a pod's metadata, where the admin has not settled otherwise."""
    if not settings.metrics.scrape_annotations:
        return {}
    told = {"scrape": "true", "port": str(port), "path": _PATH}
    return {"annotations": {f"prometheus.io/{name}": value for name, value in told.items()}}
