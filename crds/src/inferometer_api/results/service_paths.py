"""The address of a cluster's results service: its API group, its paths, and its audience."""

from urllib.parse import quote

SERVICE_GROUP = "results.inferometer.dev"
SERVICE_VERSION = "v1alpha1"
SERVICE_ROOT = f"/apis/{SERVICE_GROUP}/{SERVICE_VERSION}"
EXPLORER = f"{SERVICE_ROOT}/explorers/main/proxy"
"""Below it are the REST API and the pages, as `inferometer results serve` has them at the root."""
AUDIENCE = SERVICE_GROUP
"""The audience of the tokens of pods."""
PAGE_TYPE = "application/vnd.inferometer.page"
"""Media type of pages on their way through the API server, in place of text/html: it would rewrite
their links, and a browser could open them as pages of the API server itself."""


def ingest_path(namespace: str) -> str:
    """Return the path that takes result documents for a namespace, below the explorer's."""
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/results"


def result_page(id_: str) -> str:
    """Return the path of the page of a result, below the explorer's."""
    return f"/results/{quote(id_, safe='')}"


def suite_ingest_path(namespace: str) -> str:
    """Return the path that takes outcomes of suites for a namespace, below the explorer's."""
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/suites"


def node_ingest_path(namespace: str) -> str:
    """Return the path that takes measurements of nodes for a namespace, below the explorer's."""
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/nodes"


def reuse_path(namespace: str) -> str:
    """Return the path that finds stored results for runs of a suite, below the explorer's."""
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/reusable-results"


def suite_page(suite: str, execution: str = "") -> str:
    """Return the path of the page of a suite, or of one execution, below the explorer's.

    An execution in a cluster has its namespace before its name: "bench/nightly-29640000".
    """
    page = f"/suites/{quote(suite, safe='')}"
    return f"{page}?execution={quote(execution, safe='')}" if execution else page
