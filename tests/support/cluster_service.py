"""The service of a cluster without its edges: an authority by script, and callers by header."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from starlette.testclient import TestClient
from starlette.types import ASGIApp, Receive, Scope, Send

from inferometer_results.explore.prices import PriceList
from inferometer_results.service.access.cluster import PEER_NAME, ClusterAccess, ReviewError
from inferometer_results.service.access.front_proxy import FrontProxy, Identity
from inferometer_results.service.access.reviews import RunAccess
from inferometer_results.service.api.ingest import Ingest, RateLimit
from inferometer_results.service.app import create_cluster_app
from inferometer_results.service.metrics import ServiceMetrics
from inferometer_results.store.store import Store
from inferometer_results.store.visibility import Readable, from_context

PROXY = FrontProxy(
    "",
    frozenset({"front-proxy-client"}),
    ("x-remote-user",),
    ("x-remote-uid",),
    ("x-remote-group",),
    ("x-remote-extra-",),
)
OPERATOR = "system:serviceaccount:bench:inferometer-operator"
CLUSTER_UID = "cluster-1"
NOW = "2026-02-02T00:00:00.000Z"


@dataclass
class ScriptedAuthority:
    """Knows who may do what, and which namespaces exist."""

    rights: set[tuple[str, str, str]] = field(default_factory=set)
    """User, verb and namespace."""
    uids: dict[str, str] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)
    """Users by their tokens of our audience."""
    fault: str = ""

    async def bearer(self, token: str) -> Identity | None:
        """Return the bearer of a token."""
        self._check()
        return Identity(self.tokens[token]) if token in self.tokens else None

    async def may(self, identity: Identity, right: RunAccess) -> bool:
        """Return whether a caller has a right."""
        self._check()
        wanted = (identity.user, right.verb, right.namespace)
        return wanted in self.rights

    async def readable(self, identity: Identity) -> Readable:
        """Return the namespaces that a caller may read."""
        self._check()
        if (identity.user, "get", "") in self.rights:
            return None
        names = (name for name in self.uids if (identity.user, "get", name) in self.rights)
        return frozenset(self.uids[name] for name in names)

    async def namespace_uid(self, name: str) -> str | None:
        """Return the UID of a namespace."""
        self._check()
        return self.uids.get(name)

    def _check(self) -> None:
        if self.fault:
            raise ReviewError(self.fault)


def cluster_client(
    address: str,
    authority: ScriptedAuthority,
    peer: str | None = "front-proxy-client",
    prices: PriceList | None = None,
) -> TestClient:
    """Return a client whose connections have a client certificate of this name, or none."""
    return TestClient(
        cluster_app(address, authority, peer, prices),
        base_url="https://127.0.0.1",
        follow_redirects=False,
    )


def cluster_app(
    address: str,
    authority: ScriptedAuthority,
    peer: str | None = "front-proxy-client",
    prices: PriceList | None = None,
) -> ASGIApp:
    """Return the application behind its access control."""
    store = Store(address, from_context())
    ingest = Ingest(store, authority, CLUSTER_UID, RateLimit(lambda: 0.0), lambda: NOW)
    app = create_cluster_app(ingest, "1.2.3", ServiceMetrics(lambda: 0.0), prices)
    access = ClusterAccess(app, authority, PROXY, frozenset({OPERATOR}))
    return _with_peer(access, peer)


def caller(user: str, **more: str) -> Mapping[str, str]:
    """Return the headers by which the API server names a user."""
    return {"X-Remote-User": user, **more}


def _with_peer(app: ASGIApp, peer: str | None) -> ASGIApp:
    async def with_peer(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "state": {PEER_NAME: peer}}, receive, send)

    return with_peer
