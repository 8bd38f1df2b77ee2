"""A real etcd, kube-apiserver and controller-manager, alone or for nodes."""

import json
import secrets
import ssl
import subprocess
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.aggregation_certificates import FRONT_AUTHORITY, FRONT_PROXY, USER_AUTHORITY
from support.cluster import configurations
from support.cluster.binaries import ensure
from support.cluster.configurations import Account
from support.cluster.pins import API, NODES
from support.cluster.processes import Group
from support.waiting import wait_until

READY_SECONDS = 60.0
"""Far above what it takes: a start that reaches it has failed."""
_DEFINITION = "CustomResourceDefinition"
SERVICE_RANGE = "10.96.0.0/16"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a control plane runs and at which address it is spoken to."""

    address: str
    api_port: int
    etcd_port: int
    etcd_peer_port: int
    prefix: tuple[str, ...] = ()
    """The words before each command that put it into the cluster's own network."""
    nodes: bool = False

    @property
    def etcd_address(self) -> str:
        """Return the address of the store, which only its own machine or network can reach."""
        return "127.0.0.1" if self.nodes else self.address


def loopback() -> Place:
    """Return a place on a loopback address of its own, which needs no rights.

    No other process listens on a random one of 16 million addresses, so no port can be taken.
    """
    one, two, three = (secrets.randbelow(254) + 1 for _ in range(3))
    return Place(f"127.{one}.{two}.{three}", 6443, 2379, 2380)


class ControlPlane:
    """A running API server with its store and controllers, whose audit log keeps every request."""

    def __init__(
        self,
        folder: Path,
        place: Place | None = None,
        group: Group | None = None,
        accounts: Sequence[Account] = (),
    ) -> None:
        """Start one in `folder`, on loopback by default, and wait until it serves."""
        self._folder = folder
        self._place = place or loopback()
        self._programs = ensure(NODES if self._place.nodes else API)
        self.token = secrets.token_hex(16)
        self.kubeconfig = folder / "kubeconfig"
        self.audit_log = folder / "audit.log"
        self.group = group or Group(folder / "logs")
        admin = Account(configurations.ADMIN, ("system:masters",), self.token)
        try:
            self._write_configuration([admin, *accounts])
            self.etcd = self.group.start("etcd", self._etcd())
            self.api_server = self.group.start("kube-apiserver", self._api_server())
            # The API server makes its own certificate, which all others trust.
            wait_until(
                lambda: self._key.exists() and self.authority.exists(),
                "The API server's certificate",
                [self.api_server],
            )
            self.write_kubeconfig(self.kubeconfig, self.token)
            self.controllers = self.group.start("kube-controller-manager", self._controllers())
            self.wait_ready()
        except BaseException:
            self.group.stop()
            raise

    @property
    def url(self) -> str:
        """Return where the API server is, as seen from the machine."""
        return f"https://{self._place.address}:{self._place.api_port}"

    @property
    def authority(self) -> Path:
        """Return the certificate by which the API server is known."""
        return self._folder / "certificates" / "apiserver.crt"

    @property
    def _key(self) -> Path:
        return self._folder / "certificates" / "apiserver.key"

    def kubectl(self, *words: str, stdin: str | None = None) -> str:
        """Return what this kubectl command writes; RuntimeError with its complaint if it fails."""
        done = subprocess.run(
            [self._programs["kubectl"], "--kubeconfig", self.kubeconfig, *words],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(
                f"kubectl {' '.join(words)} ended with {done.returncode}: {done.stderr.strip()}"
            )
        return done.stdout

    def get(self, *words: str) -> Any:
        """Return the output of `kubectl get WORDS -o json`."""
        return json.loads(self.kubectl("get", *words, "-o", "json"))

    def wait_until_established(self, *words: str) -> None:
        """Wait until the API server serves all definitions that `kubectl get WORDS` shows.

        `kubectl wait` fails on a definition that is too new to have a status.
        """

        def are_established() -> bool:
            found = self.get(*words)
            kinds = (each for each in found.get("items", [found]) if each["kind"] == _DEFINITION)
            return all(map(_is_established, kinds))

        wait_until(are_established, f"The definitions {' '.join(words)}")

    def pause(self) -> None:
        """Let the API server fall silent with its connections open."""
        self.api_server.pause()

    def resume(self) -> None:
        """Let the API server answer again after `pause`."""
        self.api_server.resume()

    def kill(self) -> None:
        """End the API server at once; the store keeps what it holds."""
        self.api_server.kill()

    def restart(self) -> None:
        """Start the API server again after `kill`, on the same data and port."""
        self.api_server.start()
        self.wait_ready()

    def wait_ready(self) -> None:
        """Wait until the API server says that it is ready."""
        needs = [self.etcd, self.api_server]
        wait_until(self._is_ready, "The API server's readiness", needs, READY_SECONDS)

    def stop(self) -> None:
        """End every process; what they wrote stays in the folder."""
        self.group.stop()

    def write_kubeconfig(self, path: Path, token: str, url: str | None = None) -> Path:
        """Write a kubeconfig for the bearer of this token and return its path."""
        text = configurations.kubeconfig(url or self.url, self.authority.read_bytes(), token)
        path.touch(mode=0o600)
        path.write_text(text)
        return path

    def _write_configuration(self, accounts: list[Account]) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        tokens = self._folder / "tokens.csv"
        tokens.touch(mode=0o600)
        tokens.write_text(configurations.tokens(accounts))
        (self._folder / "audit-policy.yaml").write_text(configurations.audit_policy())
        FRONT_PROXY.write(self._folder, "front-proxy")
        (self._folder / "front-authority.crt").write_text(FRONT_AUTHORITY)
        (self._folder / "user-authority.crt").write_text(USER_AUTHORITY)

    def _is_ready(self) -> bool:
        request = urllib.request.Request(  # noqa: S310 - the address is our own server's
            f"{self.url}/readyz", headers={"Authorization": f"Bearer {self.token}"}
        )
        context = ssl.create_default_context(cafile=self.authority)
        try:
            with urllib.request.urlopen(  # noqa: S310 - the same
                request, timeout=READY_SECONDS, context=context
            ) as reply:
                return bool(reply.status == 200)
        except OSError:
            return False

    def _etcd(self) -> list[str | Path]:
        client = f"http://{self._place.etcd_address}:{self._place.etcd_port}"
        peer = f"http://{self._place.etcd_address}:{self._place.etcd_peer_port}"
        return [
            *self._place.prefix,
            self._programs["etcd"],
            "--unsafe-no-fsync",
            f"--data-dir={self._folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--log-level=warn",
        ]

    def _api_server(self) -> list[str | Path]:
        place = self._place
        return [
            *place.prefix,
            self._programs["kube-apiserver"],
            f"--etcd-servers=http://{place.etcd_address}:{place.etcd_port}",
            f"--bind-address={place.address}",
            f"--advertise-address={place.address}",
            f"--secure-port={place.api_port}",
            f"--cert-dir={self._folder / 'certificates'}",
            f"--service-cluster-ip-range={SERVICE_RANGE}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-signing-key-file={self._key}",
            f"--service-account-key-file={self._key}",
            f"--token-auth-file={self._folder / 'tokens.csv'}",
            f"--authorization-mode={'Node,RBAC' if place.nodes else 'RBAC'}",
            f"--client-ca-file={self._folder / 'user-authority.crt'}",
            # The aggregation layer: APIs that a Service in the cluster serves.
            f"--proxy-client-cert-file={self._folder / 'front-proxy.crt'}",
            f"--proxy-client-key-file={self._folder / 'front-proxy.key'}",
            f"--requestheader-client-ca-file={self._folder / 'front-authority.crt'}",
            "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-uid-headers=X-Remote-Uid",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            # A loopback address may not stand behind the Service `kubernetes`.
            f"--endpoint-reconciler-type={'lease' if place.nodes else 'none'}",
            # Services of aggregated APIs are reached at their pods: no kube-proxy runs here.
            *(["--enable-aggregator-routing=true"] if place.nodes else []),
            "--allow-privileged=true",
            "--kubelet-preferred-address-types=InternalIP",
            f"--audit-policy-file={self._folder / 'audit-policy.yaml'}",
            f"--audit-log-path={self.audit_log}",
            # Never rotated: nothing of it may be lost.
            "--audit-log-maxsize=100000",
        ]

    def _controllers(self) -> list[str | Path]:
        return [
            *self._place.prefix,
            self._programs["kube-controller-manager"],
            f"--kubeconfig={self.kubeconfig}",
            "--leader-elect=false",
            f"--service-account-private-key-file={self._key}",
            f"--root-ca-file={self.authority}",
            "--use-service-account-credentials=true",
            "--node-monitor-period=2s",
            "--node-monitor-grace-period=12s",
            # At the default rate the controllers, which start one by one, take 5 s longer.
            "--kube-api-qps=1000",
            "--kube-api-burst=1000",
            # The default is a folder of the machine, which it would make.
            f"--flex-volume-plugin-dir={self._folder / 'volume-plugins'}",
            "--secure-port=0",
        ]


def _is_established(definition: dict[str, Any]) -> bool:
    """Return whether the API server serves a definition."""
    conditions = definition.get("status", {}).get("conditions") or ()
    return any((each["type"], each["status"]) == ("Established", "True") for each in conditions)
