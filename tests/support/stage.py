"""The stage of a test: a namespace, an operator, and nodes that follow the test's script."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from inferometer_api.plan.cluster_objects import LOADGEN, SERVER
from support.api_client import Api, Object
from support.cluster import configurations
from support.cluster.control_plane import ControlPlane
from support.cluster.namespaces import fresh_namespace
from support.fake_kubelet import FakeKubelet, Script, ready_server
from support.fake_load import FakeLoad, Loads
from support.fake_pod import Pod
from support.fault_proxy import FaultProxy
from support.operator_process import (
    OperatorProcess,
    bound_account,
    grant_kueue,
    operator_account,
)
from support.runs import a_run
from support.waiting import wait_until

WAIT_SECONDS = 180.0
"""The deadline of every wait: it only ends a test that would never pass."""
SHORT = {"warmUpSeconds": 0, "minDurationSeconds": 1, "minQueries": 1, "maxDurationSeconds": 60}


class Stage:
    """One namespace with an operator of its own."""

    def __init__(
        self, control_plane: ControlPlane, kubelet: FakeKubelet, namespace: str, folder: Path
    ) -> None:
        self.control_plane = control_plane
        self.api = kubelet.api
        self.kubelet = kubelet
        self.loads = Loads()
        self.namespace = namespace
        self.folder = folder
        self.play(SERVER, ready_server)
        self.play(LOADGEN, self.loads.measure)
        self.history: dict[str, list[Object]] = {}
        """Each condition as the status showed it, by run, in order."""
        self._operators: list[OperatorProcess] = []
        self._token: str | None = None
        self._policies: list[str] = []

    @property
    def user(self) -> str:
        """Return the name by which the API server knows the operator."""
        return f"system:serviceaccount:{self.namespace}:inferometer-operator"

    def play(self, component: str, script: Script) -> None:
        """Lead pods of a component by this script from now on."""
        self.kubelet.play(self.namespace, component, script)

    def start_operator(
        self,
        *words: str,
        through: FaultProxy | None = None,
        environment: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> OperatorProcess:
        """Start an operator for the namespace and wait until it hears everything."""
        operator = self.begin_operator(*words, through=through, environment=environment, **settings)
        operator.wait_ready()
        return operator

    def begin_operator(
        self,
        *words: str,
        through: FaultProxy | None = None,
        environment: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> OperatorProcess:
        """Start an operator for the namespace, which may have to wait for its turn."""
        token = self.operator_token(
            secrets=bool(settings.get("allowSecrets")),
            kueue="kueue" in settings,
            kserve="kserve" in settings,
            model_cache=bool(settings.get("modelCache")),
        )
        plane, name = self.control_plane, f"operator-{len(self._operators)}"
        url = plane.url if through is None else through.url
        authority = plane.authority.read_bytes() if through is None else through.authority
        kubeconfig = self.folder / f"{name}.kubeconfig"
        kubeconfig.write_text(configurations.kubeconfig(url, authority, token))
        operator = OperatorProcess(
            kubeconfig,
            self.namespace,
            self.folder,
            *(words or ("--no-lease",)),
            *("--loadgen-port", str(self.loads.port)),
            settings=settings,
            name=name,
            environment=environment,
        )
        self._operators.append(operator)
        return operator

    def use_token(self, token: str) -> None:
        """Start operators with this token, for example of an account that the chart made."""
        self._token = token

    def operator_token(
        self,
        *,
        secrets: bool = False,
        kueue: bool = False,
        kserve: bool = False,
        model_cache: bool = False,
        read_nodes: bool = False,
    ) -> str:
        """Return a token of the operator's account, whose rights are those that the chart grants.

        The chart's admission policy bounds every operator of these tests.
        """
        if self._token is None:
            self._policies = bound_account(
                self.api,
                self.namespace,
                secrets=secrets,
                model_cache=model_cache,
                read_nodes=read_nodes,
            )
            self._token = operator_account(
                self.api, self.namespace, secrets=secrets, kueue=kueue, kserve=kserve
            )
            if kueue:
                self._policies += grant_kueue(self.api, self.namespace)
        return self._token

    def a_run(self, name: str, **spec: Any) -> Object:
        """Return a run with short minimums."""
        return {**a_run(**{"validity": SHORT, **spec}), "metadata": {"name": name}}

    def apply(self, name: str = "a-run", *, api: Api | None = None, **spec: Any) -> Object:
        """Create a run with short minimums."""
        return (api or self.api).create("BenchmarkRun", self.namespace, self.a_run(name, **spec))

    def change(self, name: str = "a-run", **spec: Any) -> None:
        """Change members of a run's spec."""
        self.api.merge("BenchmarkRun", self.namespace, name, {"spec": spec})

    def run(self, name: str = "a-run") -> Object:
        """Return the run as it is."""
        found = self.api.found("BenchmarkRun", self.namespace, name)
        assert found is not None, f"There is no run {name}."
        return found

    def status(self, name: str = "a-run") -> Object:
        """Return the run's status, empty if it has none."""
        found: Object = self.run(name).get("status") or {}
        return found

    def condition(self, kind: str, name: str = "a-run") -> Object:
        """Return a condition of the run, empty if it has none of that type."""
        conditions = self.status(name).get("conditions") or []
        return next((each for each in conditions if each["type"] == kind), {})

    def wait(
        self,
        kind: str,
        reason: str | None = None,
        *,
        value: str = "True",
        name: str = "a-run",
    ) -> Object:
        """Wait for a condition and return it."""
        self.wait_for(
            lambda: _matches(self.condition(kind, name), value, reason),
            lambda: (
                f"{kind}={value} {reason or ''}: "
                f"{json.dumps(self.status(name), indent=1)}\n{self.logs()}"
            ),
        )
        return self.condition(kind, name)

    def wait_for(
        self,
        true: Callable[[], object],
        what: Callable[[], str] | str,
    ) -> None:
        """Wait until something is true; fail with a message that is made then."""
        try:
            wait_until(lambda: bool(true()), "It", deadline_seconds=WAIT_SECONDS)
        except TimeoutError:
            expected = what if isinstance(what, str) else what()
            raise AssertionError(f"Waited {WAIT_SECONDS:g} s for {expected}") from None

    def finished(self, name: str = "a-run") -> Object:
        """Wait until the run is finished and return its status."""
        self.wait("Finished", name=name)
        return self.status(name)

    def keep_history(self) -> None:
        """Keep the conditions of every run in `history` from now on."""
        threading.Thread(target=self._keep, daemon=True).start()

    def _keep(self) -> None:
        for _, run in self.api.watch("BenchmarkRun", self.namespace):
            history = self.history.setdefault(run["metadata"]["name"], [])
            conditions = (run.get("status") or {}).get("conditions") or []
            history += conditions

    def children(self) -> set[str]:
        """Return KIND/NAME of every object that the operator made and that is still there."""
        return {
            f"{kind}/{each['metadata']['name']}"
            for kind in ("Job", "ConfigMap", "Service", "Pod")
            for each in self.api.all(
                kind, self.namespace, "app.kubernetes.io/managed-by=inferometer-operator"
            )
        }

    def load(self, name: str = "a-run") -> FakeLoad:
        """Wait for the load generator of a run."""
        self.wait_for(
            lambda: self.loads.there(name) or self.condition("Finished", name),
            lambda: f"the load generator: {json.dumps(self.status(name))}\n{self.logs()}",
        )
        found = self.loads.there(name)
        assert found is not None, f"{json.dumps(self.status(name))}\n{self.logs()}"
        return found

    def pod(self, component: str, count: int = 1) -> Pod:
        """Wait for a pod of a component."""
        return self.kubelet.pod(self.namespace, component, count)

    def events(self, name: str = "a-run") -> list[str]:
        """Return the reasons of the run's events, in order."""
        found_events = [
            each
            for each in self.api.all("Event", self.namespace)
            if each["involvedObject"]["kind"] == "BenchmarkRun"
            and each["involvedObject"]["name"] == name
        ]
        return [
            each["reason"] for each in sorted(found_events, key=lambda each: each["firstTimestamp"])
        ]

    def logs(self) -> str:
        """Return the ends of the operators' logs."""
        return "\n".join(each.log.read_text()[-3000:] for each in self._operators)

    def close(self) -> None:
        """End the operators, and forget their policies."""
        for operator in self._operators:
            operator.close()
        for path in self._policies:
            self.api.ask("DELETE", path)


@contextmanager
def a_stage(control_plane: ControlPlane, kubelet: FakeKubelet, folder: Path) -> Iterator[Stage]:
    """Make a stage; its operators are gone after the block."""
    with fresh_namespace(control_plane) as namespace:
        stage = Stage(control_plane, kubelet, namespace, folder)
        try:
            yield stage
        finally:
            stage.close()


def _matches(condition: Object, value: str, reason: str | None) -> bool:
    return condition.get("status") == value and reason in {None, condition.get("reason")}
