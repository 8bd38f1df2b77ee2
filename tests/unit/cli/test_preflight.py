"""Checks of a cluster before a run, on raw objects of the API."""

from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer_api.crd import custom_resource_definition
from inferometer_api.spec.resolve import fill_defaults
from inferometer_api.spec.run import BenchmarkRun
from inferometer_cli.preflight.api_server import (
    RIGHTS,
    definition_check,
    namespace_check,
    rights_checks,
    version_check,
)
from inferometer_cli.preflight.check import Check, Unread, lines, summary
from inferometer_cli.preflight.images import class_checks, image_checks
from inferometer_cli.preflight.limits import limit_checks
from inferometer_cli.preflight.nodes import known_faults, node_checks
from inferometer_cli.preflight.operators import (
    ASSUMED,
    OperatorEvidence,
    operator_checks,
    queue_check,
)
from inferometer_cli.preflight.pods import Pods, pods_of
from inferometer_cli.preflight.quota import quota_checks
from inferometer_cli.preflight.references import Named, ceiling_checks, reference_checks
from inferometer_cli.preflight.resource_amounts import amount, written
from inferometer_operator.reconcile.references import run_references
from inferometer_operator.settings import Ceilings, GpuPods, Settings
from support.runs import a_run

NOW = datetime(2026, 3, 12, 14, 3, 51, tzinfo=UTC)
FORBIDDEN = Unread("you may not list them")
ABSENT = Unread("it is not there", absent=True)


def _run(**spec: Any) -> BenchmarkRun:
    return fill_defaults(BenchmarkRun.model_validate(a_run(**spec)))


def _pods(settings: Settings = ASSUMED, **spec: Any) -> tuple[Pods, ...]:
    return pods_of(_run(**spec), settings)


def _summaries(checks: Iterable[Check]) -> list[tuple[str, str]]:
    return [(check.state, check.message) for check in checks]


def _only(checks: Iterable[Check], state: str, *words: str) -> None:
    """Assert that there is one check, with this state and these words."""
    (check,) = checks
    assert check.state == state, check
    for word in words:
        assert word in check.message


@pytest.mark.parametrize(
    ("quantity", "value"),
    [
        ("500m", "0.5"),
        ("2", "2"),
        (2, "2"),
        ("1.5", "1.5"),
        ("128974848", "128974848"),
        ("129e6", "129000000"),
        ("129M", "129000000"),
        ("123Mi", "128974848"),
        ("100n", "0.0000001"),
        ("0", "0"),
        (".5Gi", "536870912"),
    ],
)
def test_quantities_are_parsed_as_kubernetes_does(quantity: str | int, value: str) -> None:
    """Every notation of Kubernetes is parsed exactly."""
    assert amount(quantity) == Decimal(value)


@given(st.text(max_size=8))
def test_other_texts_are_not_quantities(text: str) -> None:
    """Any other text is refused with a message."""
    try:
        amount(text)
    except ValueError as error:
        assert "is not a Kubernetes quantity" in str(error)  # noqa: PT017 - either end is right


def test_amounts_are_written_for_people() -> None:
    """CPU in cores, bytes in the largest binary unit, the rest as a number."""
    assert written("requests.cpu", Decimal("1.50")) == "1.5 CPU"
    assert written("memory", Decimal(2 * 2**30)) == "2Gi"
    assert written("memory", Decimal(0)) == "0"
    assert written("nvidia.com/gpu", Decimal(1)) == "1"


@pytest.mark.parametrize(
    ("version", "state"),
    [("v1.30.0", "ok"), ("v1.34.4+k3s1", "ok"), ("v1.29.9-gke.1", "blocked"), ("", "unknown")],
)
def test_the_api_server_must_be_new_enough(version: str, state: str) -> None:
    """1.30 is the oldest supported version."""
    assert version_check({"gitVersion": version}, "https://host").state == state


def _openapi(change: str = "") -> dict[str, Any]:
    schema = custom_resource_definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    if change == "fewer":
        del schema["properties"]["spec"]["properties"]["cancel"]
    if change == "more":
        schema["properties"]["spec"]["properties"]["news"] = {"type": "string"}
    kind = {"group": "inferometer.dev", "kind": "BenchmarkRun", "version": "v1alpha1"}
    named = {**schema, "x-kubernetes-group-version-kind": [kind]}
    return {"components": {"schemas": {"dev.inferometer.v1alpha1.BenchmarkRun": named}}}


@pytest.mark.parametrize(
    ("openapi", "state", "words"),
    [
        (_openapi(), "ok", "has the fields of this version"),
        (_openapi("fewer"), "warning", "has fewer fields than this version"),
        (_openapi("more"), "warning", "spec.news"),
        ({"components": {"schemas": {}}}, "blocked", "but not version v1alpha1"),
        (ABSENT, "blocked", "install the chart"),
        (FORBIDDEN, "unknown", "whether benchmarkruns.inferometer.dev is installed: you may"),
    ],
)
def test_the_definition_is_compared(openapi: Any, state: str, words: str) -> None:
    """A cluster without BenchmarkRuns blocks a run; different fields are a warning."""
    _only([definition_check(openapi)], state, words)


def test_a_missing_right_is_named_with_its_purpose() -> None:
    """Without the right to create runs the run is blocked; other missing rights are warnings."""
    all_of_them: dict[tuple[str, str], bool | Unread] = dict.fromkeys(RIGHTS, True)
    assert [check.state for check in rights_checks(all_of_them, "bench")] == ["ok"]
    summaries = _summaries(
        rights_checks(
            {
                ("create", "benchmarkruns"): False,
                ("get", "configmaps"): False,
                ("patch", "benchmarkruns"): FORBIDDEN,
            },
            "bench",
        )
    )
    assert [state for state, _ in summaries] == ["blocked", "warning", "unknown"]
    assert "you may not create benchmarkruns in bench" in summaries[0][1]
    assert "you need it to download a result" in summaries[1][1]


@pytest.mark.parametrize(
    ("namespace", "state", "words"),
    [
        (
            {
                "metadata": {
                    "labels": {"pod-security.kubernetes.io/enforce": "restricted"},
                }
            },
            "ok",
            "enforces pod security restricted",
        ),
        ({"metadata": {"deletionTimestamp": "now"}}, "blocked", "is being deleted"),
        (ABSENT, "blocked", "create it"),
        (FORBIDDEN, "unknown", "you may not"),
    ],
)
def test_the_namespace_must_exist(namespace: Any, state: str, words: str) -> None:
    """A missing or terminating namespace blocks a run; its pod security level does not."""
    _only([namespace_check(namespace, "bench")], state, words)


def _settings_map(namespace: str, serves: str = "", text: str = "") -> dict[str, Any]:
    images = "images: {serving: a, servingGpu: b, loadgen: c}\n"
    served = f"namespace: {serves}\n" if serves else ""
    return {
        "metadata": {
            "name": "inferometer-operator-settings",
            "namespace": namespace,
            "labels": {"app.kubernetes.io/instance": "inferometer"},
        },
        "data": {"settings.yaml": text or f"{served}{images}"},
    }


def _deployment(namespace: str, available: int = 1) -> dict[str, Any]:
    labels = {"app.kubernetes.io/instance": "inferometer"}
    return {
        "metadata": {"name": "inferometer-operator", "namespace": namespace, "labels": labels},
        "status": {"availableReplicas": available},
    }


def _lease(namespace: str, renewed: str, holder: str = "pod-1_x") -> dict[str, Any]:
    return {
        "metadata": {"name": "inferometer-operator", "namespace": namespace},
        "spec": {"holderIdentity": holder, "renewTime": renewed},
    }


def test_a_running_operator_is_found() -> None:
    """Settings that serve the namespace, an available pod and a fresh Lease are ok."""
    summaries = _summaries(
        operator_checks(
            OperatorEvidence(
                [_settings_map("other", "other"), _settings_map("bench", "bench")],
                [_deployment("bench"), _deployment("other", 0)],
                [_lease("bench", "2026-03-12T14:03:50.000000Z")],
            ),
            "bench",
            NOW,
        )
    )
    assert [state for state, _ in summaries] == ["ok", "ok", "ok"]
    assert summaries[2][1] == "pod-1 is the leader"


@pytest.mark.parametrize(
    ("config_maps", "deployments", "state", "words"),
    [
        ([], [], "blocked", "no operator serves bench; install the chart"),
        ([_settings_map("other", "other")], [], "blocked", "serves bench (only other)"),
        ([_settings_map("all", text="images: {}")], [], "unknown", "belong to another version"),
        (FORBIDDEN, FORBIDDEN, "unknown", "you may not list them"),
        (
            [_settings_map("all")],
            [_deployment("all", 0)],
            "blocked",
            "no pod of all/inferometer-op",
        ),
        ([_settings_map("all")], [], "blocked", "its Deployment in all is gone"),
        ([_settings_map("all")], FORBIDDEN, "unknown", "whether its pods are ready"),
    ],
)
def test_a_run_needs_a_running_operator(
    config_maps: Any, deployments: Any, state: str, words: str
) -> None:
    """No operator, one for another namespace and one without pods are reported as such."""
    checks = [*operator_checks(OperatorEvidence(config_maps, deployments, []), "bench", NOW)]
    _only(checks[-1:], state, words)


def test_an_operator_elsewhere_may_be_invisible() -> None:
    """A user who can read one namespace cannot rule out an operator in another one."""
    checks = operator_checks(OperatorEvidence([], [], [], beyond=FORBIDDEN), "bench", NOW)
    _only(checks, "unknown", "whether one in another namespace serves bench")


def test_an_operator_without_a_leader_is_a_warning() -> None:
    """While no pod renews the Lease, runs do not start."""
    for lease in (_lease("all", "2026-03-12T14:02:00Z"), _lease("all", "", "")):
        evidence = OperatorEvidence([_settings_map("all")], [_deployment("all")], [lease])
        _only([*operator_checks(evidence, "b", NOW)][-1:], "warning", "it has had no leader")


def test_earlier_runs_are_reported() -> None:
    """As many unfinished runs as may run at a time delay the next one; by default four."""
    finished = {"conditions": [{"type": "Finished", "status": "True"}]}
    over = {"metadata": {"name": "a"}, "status": finished}
    going = {"metadata": {"name": "b"}}
    _only([queue_check([over], ASSUMED)], "ok")
    _only([queue_check([over, *[going] * 3], ASSUMED)], "ok")
    _only([queue_check([over, *[going] * 4], ASSUMED)], "warning", "unfinished runs: b", "queued")
    _only([queue_check(FORBIDDEN, ASSUMED)], "unknown")


def test_the_pods_are_those_that_the_operator_makes() -> None:
    """Server pods request what the spec says, the load generator what the settings say."""
    server, load = _pods(server={"replicas": 2, "resources": {"cpu": "1500m", "memory": "4Gi"}})
    assert (server.count, load.count) == (2, 1)
    assert server.requests == server.limits
    assert server.requests == {"cpu": Decimal("1.5"), "memory": Decimal(4 * 2**30)}
    assert load.limits == {"memory": Decimal(2 * 2**30)}


def _quota(hard: dict[str, str], used: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    status = {"hard": hard, "used": used or {}}
    return {"metadata": {"name": "q"}, "spec": {"hard": hard, **spec}, "status": status}


@pytest.mark.parametrize(
    ("quota", "state", "words"),
    [
        (_quota({"requests.cpu": "2", "memory": "4Gi", "pods": "2"}), "ok", "q has room"),
        (_quota({"cpu": "1"}), "blocked", "cpu: the run needs 2 CPU, but the whole quota is 1 CPU"),
        (
            _quota({"cpu": "4"}, {"cpu": "3"}),
            "blocked",
            "needs 2 CPU, but only 1 CPU of 4 CPU is left",
        ),
        (_quota({"pods": "5"}, {"pods": "4"}), "blocked", "pods: the run needs 2, but only 1 of 5"),
        (_quota({"limits.cpu": "9"}), "blocked", "the load generator has none"),
        (_quota({"limits.memory": "3Gi"}), "blocked", "needs 4Gi, but the whole quota is 3Gi"),
        (_quota({"count/jobs.batch": "0"}), "blocked", "count/jobs.batch: the run needs 2"),
        (_quota({"configmaps": "1"}), "blocked", "configmaps: the run needs 2"),
        (_quota({"services": "0", "requests.nvidia.com/gpu": "0"}), "ok", "q has room"),
        (_quota({"pods": "0"}, scopeSelector={}), "blocked", "pods"),
        (
            _quota({"pods": "0"}, scopeSelector={"matchExpressions": []}),
            "unknown",
            "does not evaluate",
        ),
    ],
)
def test_a_quota_must_have_room(quota: dict[str, Any], state: str, words: str) -> None:
    """A need beyond the quota, or beyond what is left of it, is reported with both figures."""
    found = [check for check in quota_checks([quota], _pods()) if check.state == state]
    _only(found, state, words)


def test_a_fleet_counts_every_pod_and_its_service() -> None:
    """Two workers are three load pods in addition to the server, and a Service."""
    fleet = _pods(load={"workers": 2})
    _only(quota_checks([_quota({"pods": "4", "services": "1"})], fleet), "ok", "q has room")
    _only(quota_checks([_quota({"pods": "3"})], fleet), "blocked", "pods: the run needs 4")
    _only(quota_checks([_quota({"services": "0"})], fleet), "blocked", "services: the run needs 1")
    _only(quota_checks([_quota({"cpu": "3"})], fleet), "blocked", "cpu: the run needs 4 CPU")


def test_a_quota_of_other_pods_does_not_matter() -> None:
    """A scope that matches no pod of a run is ignored; GPUs are counted by their resource name."""
    assert not [*quota_checks([_quota({"pods": "0"}, scopes=["BestEffort"])], _pods())]
    gpu = _pods(server={"device": "GPU"})
    _only(
        quota_checks([_quota({"requests.nvidia.com/gpu": "0"})], gpu), "blocked", "nvidia.com/gpu"
    )
    _only(quota_checks([], gpu), "ok", "no ResourceQuota")
    _only(quota_checks(FORBIDDEN, gpu), "unknown")


def _limits(kind: str = "Container", **item: Any) -> dict[str, Any]:
    return {"metadata": {"name": "l"}, "spec": {"limits": [{"type": kind, **item}]}}


@pytest.mark.parametrize(
    ("limit_range", "state", "words"),
    [
        (_limits(max={"memory": "2Gi"}), "ok", "l accepts the run's pods"),
        (
            _limits(max={"memory": "1Gi"}),
            "blocked",
            "the server has a limit of 2Gi; the maximum is 1Gi",
        ),
        (_limits(min={"cpu": "2"}), "blocked", "the server requests 1 CPU; the minimum is 2 CPU"),
        (_limits(default={"cpu": "4"}), "warning", "gives the load generator a CPU limit of 4 CPU"),
        (_limits(default={"cpu": "500m"}), "blocked", "the load generator requests 1 CPU, but its"),
        (_limits(max={"cpu": "4"}), "blocked", "the load generator has no cpu limit"),
        (
            _limits(default={"cpu": "4"}, maxLimitRequestRatio={"cpu": "2"}),
            "blocked",
            "the load generator has a cpu limit of more than 2 times",
        ),
        (_limits("Pod", max={"memory": "1Gi"}), "blocked", "the server has a limit of 2Gi"),
        (_limits("PersistentVolumeClaim", max={"storage": "1"}), "ok", "l accepts"),
    ],
)
def test_a_limit_range_must_accept_the_pods(
    limit_range: dict[str, Any], state: str, words: str
) -> None:
    """What a LimitRange would reject, or impose on the load generator, is reported."""
    found = [check for check in limit_checks([limit_range], _pods()) if words in check.message]
    _only(found, state)


def test_an_unreadable_limit_range_is_unknown() -> None:
    """No LimitRange is ok; an unreadable one is unknown."""
    _only(limit_checks([], _pods()), "ok")
    _only(limit_checks(FORBIDDEN, _pods()), "unknown")


def _node(name: str = "n", cpu: str = "4", memory: str = "16Gi", **more: Any) -> dict[str, Any]:
    labels = more.pop("labels", {})
    allocatable = {"cpu": cpu, "memory": memory, "pods": "110", **more.pop("resources", {})}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": more,
        "status": {"allocatable": allocatable, "images": [{"names": ["reg.io/x/serving:1"]}]},
    }


def _busy(node: str, cpu: str, labels: dict[str, str] | None = None) -> dict[str, Any]:
    container = {"resources": {"requests": {"cpu": cpu}}}
    spec = {"nodeName": node, "containers": [container]}
    return {"metadata": {"labels": labels or {}}, "spec": spec, "status": {"phase": "Running"}}


TAINT = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}


def test_two_nodes_with_room_are_ok() -> None:
    """Server and load generator each have a node: ok, without a warning."""
    _only(node_checks([_node("a"), _node("b")], [], _pods()), "ok", "room for the server (1 CPU")


def test_one_node_means_a_caution() -> None:
    """On a single node the run is possible, with a caution."""
    summaries = _summaries(node_checks([_node("a")], [], _pods()))
    assert [state for state, _ in summaries] == ["ok", "warning"]
    assert "will share a" in summaries[1][1]


def _benchmark(name: str, day: int, expiry: str = "2026-12-01T00:00:00Z", **lags: int) -> Any:
    nodes = [
        {
            "node": node,
            "state": "Measured",
            "finishTime": f"2026-03-{day:02}T00:00:00Z",
            "summary": {"wakeUpLagNanoseconds": lag},
        }
        for node, lag in lags.items()
    ]
    return {"metadata": {"name": name}, "status": {"nodes": nodes, "expiryTime": expiry}}


_LATE, _FIT = 2_860_000, 90_000


@pytest.mark.parametrize(
    ("benchmarks", "words"),
    [
        ([_benchmark("old", 1, a=_LATE, b=_LATE)], "NodeBenchmark old measured b on 2026-03-01"),
        ([_benchmark("old", 1, a=_LATE, b=_FIT)], ""),
        ([_benchmark("new", 2, b=_FIT), _benchmark("old", 1, b=_LATE)], ""),
        ([_benchmark("new", 2, b=_LATE), _benchmark("old", 1, b=_FIT)], "NodeBenchmark new"),
        ([_benchmark("old", 1, expiry="2026-03-10T00:00:00Z", b=_LATE)], ""),
        (ABSENT, ""),
    ],
)
def test_a_node_that_is_unfit_to_generate_load_is_a_warning(benchmarks: Any, words: str) -> None:
    """The newest figure of the load generator's node counts, until its NodeBenchmark expires."""
    nodes = [_node("a"), _node("b", cpu="3")]
    found = _summaries(node_checks(nodes, [], _pods(), known_faults(benchmarks, NOW)))
    assert [state for state, _ in found] == ["ok", *(["warning"] if words else [])]
    if words:
        assert "the load generator may run on b. When the NodeBenchmark" in found[1][1]
        assert words in found[1][1]
        assert "a timer of 1 ms was late by 2.86 ms (p99)." in found[1][1]


def test_node_benchmarks_that_may_not_be_listed_are_unknown() -> None:
    """Then it is unknown whether a node is fit to generate load."""
    nodes = [_node("a"), _node("b")]
    found = _summaries(node_checks(nodes, [], _pods(), known_faults(FORBIDDEN, NOW)))
    assert [state for state, _ in found] == ["ok", "unknown"]


@pytest.mark.parametrize(
    ("node", "spec", "words"),
    [
        (_node(cpu="500m"), {}, "1 with 0.5 CPU of cpu at most"),
        (_node(), {"device": "GPU"}, "1 without nvidia.com/gpu"),
        (_node(), {"placement": {"nodeSelector": {"a": "b"}}}, "1 without the label a=b"),
        (_node(taints=[TAINT]), {}, "1 with the taint dedicated:NoSchedule, which is not"),
        (_node(resources={"pods": "1"}), {}, "too small for all pods of the run at once"),
        (_node(cpu="1500m"), {}, "too small for all pods of the run at once"),
    ],
)
def test_unsuitable_nodes_block_the_run(
    node: dict[str, Any], spec: dict[str, Any], words: str
) -> None:
    """For resources, GPU, labels and taints, the message says what each node lacks."""
    summaries = _summaries(node_checks([node], [], _pods(server=spec)))
    assert [state for state, _ in summaries if state != "blocked"] == []
    assert any(words in text for _, text in summaries), summaries


def test_a_tolerated_taint_is_ignored() -> None:
    """Tolerations by key and value, by existence, and for every key are supported."""
    tolerating: list[dict[str, str]] = [
        {"key": "dedicated", "value": "gpu"},
        {"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"},
        {"operator": "Exists"},
    ]
    nodes = [_node("a", taints=[TAINT]), _node("b", cpu="1200m")]
    for toleration in tolerating:
        placement = {"tolerations": [toleration], "nodeSelector": {}}
        pods = _pods(server={"placement": placement, "resources": {"cpu": 2}})
        assert _summaries(node_checks(nodes, [], pods))[0][0] == "ok", toleration
    other = _pods(server={"placement": {"tolerations": [{"key": "dedicated", "value": "x"}]}})
    assert _summaries(node_checks(nodes[:1], [], other))[0][0] == "blocked"


def test_nodes_that_are_full_now_are_a_warning() -> None:
    """Requests of other pods count; pods of other runs do not, because they end before this run."""
    pods = _pods()
    (full, _) = _summaries([*node_checks([_node()], [_busy("n", "3")], pods), *[]])
    assert full[0] == "warning"
    assert "no room now" in full[1]
    other_run = _busy("n", "3", {"inferometer.dev/run-uid": "1"})
    assert _summaries(node_checks([_node()], [other_run], pods))[0][0] == "ok"
    unseen = _summaries(node_checks([_node("a"), _node("b")], FORBIDDEN, pods))
    assert [state for state, _ in unseen] == ["ok", "unknown"]
    _only(node_checks(FORBIDDEN, FORBIDDEN, pods), "unknown")
    _only(node_checks([], [], pods), "blocked", "the cluster has no node")


def test_images_are_looked_for_on_the_nodes() -> None:
    """An image on a node is ok; whether nodes can pull another one is unknown."""
    images = ASSUMED.images.model_copy(update={"serving": "serving:1", "loadgen": "l:1"})
    pods = _pods(ASSUMED.model_copy(update={"images": images}))
    summaries = _summaries(image_checks(pods, [_node()]))
    assert summaries == [
        ("ok", "serving:1 is on n"),
        ("unknown", "whether nodes can pull l:1"),
    ]
    never = images.model_copy(update={"pull_policy": "Never"})
    pods = _pods(ASSUMED.model_copy(update={"images": never}))
    assert _summaries(image_checks(pods, [_node()]))[1][0] == "warning"
    assert _summaries(image_checks(pods, FORBIDDEN))[0][0] == "unknown"


def test_classes_of_the_settings_must_exist() -> None:
    """A missing runtime class or priority class blocks every pod that names it."""
    settings = ASSUMED.model_copy(
        update={"gpu": GpuPods(runtime_class="nvidia"), "priority_class": "high"}
    )
    pods = _pods(settings, server={"device": "GPU"})
    found = {("RuntimeClass", "nvidia"): ABSENT, ("PriorityClass", "high"): FORBIDDEN}
    assert [check.state for check in class_checks(pods, found)] == ["blocked", "unknown"]


INPUTS = {"inputs": {"file": {"uri": "configmap://data/inputs.npz"}}}


def _object(allowed: str = "true", **content: Any) -> dict[str, Any]:
    return {"metadata": {"labels": {"inferometer.dev/allow-use": allowed}}, **content}


@pytest.mark.parametrize(
    ("found", "state", "words"),
    [
        (_object(binaryData={"inputs.npz": ""}), "ok", "exists and may be used"),
        (_object(data={"other": ""}), "blocked", "has no key inputs.npz; its keys are: other"),
        (
            _object("false"),
            "blocked",
            "kubectl label configmap data inferometer.dev/allow-use=true",
        ),
        (ABSENT, "blocked", "which does not exist; create it first"),
        (FORBIDDEN, "unknown", "whether it may be used"),
    ],
)
def test_what_a_run_names_must_be_usable(found: Any, state: str, words: str) -> None:
    """A ConfigMap must exist, carry the label and have the key."""
    run = _run(load=INPUTS)
    (reference,) = run_references(run)
    _only(reference_checks(run, Named({reference: found}, settings=ASSUMED)), state, words)


def test_the_key_of_a_trace_must_exist() -> None:
    """Each of several ConfigMaps is checked for its own key."""
    scenarios = [{"name": "replay", "trace": {"uri": "configmap://times/t.csv"}}]
    run = _run(scenarios=scenarios)
    named = dict.fromkeys(run_references(run), _object(data={"t.csv": ""}))
    _only(reference_checks(run, Named(named, settings=ASSUMED)), "ok", "may be used")
    named = dict.fromkeys(run_references(run), _object(data={"inputs.npz": ""}))
    _only(reference_checks(run, Named(named, settings=ASSUMED)), "blocked", "has no key t.csv")


def test_secrets_need_the_operators_permission() -> None:
    """Naming a Secret blocks the run if the operator does not allow Secrets."""
    run = _run(model={"uri": "s3://b/m.onnx", "credentialsSecret": "keys"})
    named = dict.fromkeys(run_references(run), _object("s3"))
    _only(reference_checks(run, Named(named, settings=ASSUMED)), "blocked", "allowSecrets is false")
    allowing = ASSUMED.model_copy(update={"allow_secrets": True})
    _only(reference_checks(run, Named(named, settings=allowing)), "ok")
    named = dict.fromkeys(run_references(run), _object("headers"))
    command = "kubectl label secret keys inferometer.dev/allow-use=s3 --overwrite"
    _only(reference_checks(run, Named(named, settings=allowing)), "blocked", command)


def _external(**external: Any) -> BenchmarkRun:
    server = {"runtime": "External", "external": external}
    return _run(model={"name": "m"}, server=server)


@pytest.mark.parametrize(
    ("service", "state", "words"),
    [
        (
            {"spec": {"ports": [{"port": 8000}], "selector": {"app": "a"}}},
            "ok",
            "exists and has port 8000",
        ),
        ({"spec": {"ports": [{"port": 8000}]}}, "unknown", "has no selector"),
        ({"spec": {"ports": [{"port": 80}]}}, "blocked", "has no TCP port 8000; it has 80"),
        (
            {"spec": {"ports": [], "clusterIP": "None", "selector": {"app": "a"}}},
            "ok",
            "its pods must have port 8000",
        ),
        ({"spec": {"type": "ExternalName"}}, "blocked", "ExternalName"),
        (ABSENT, "blocked", "does not exist"),
        (FORBIDDEN, "unknown", "whether it exists"),
    ],
)
def test_the_service_of_an_external_server_must_exist(service: Any, state: str, words: str) -> None:
    """Only a Service of the namespace with that port is accepted."""
    run = _external(service={"name": "my-server", "port": 8000})
    if isinstance(service, dict):
        service["metadata"] = {"name": "my-server"}
    _only(reference_checks(run, Named({}, service, ASSUMED)), state, words)


def test_a_run_beyond_a_ceiling_is_blocked() -> None:
    """The message has the field, its value and the ceiling, as the operator's has."""
    settings = ASSUMED.model_copy(update={"ceilings": Ceilings(workers=2)})
    run = _run(load={"workers": 3})
    _only(ceiling_checks(run, settings), "blocked", "spec.load.workers: 3 ", "ceiling of 2 ")
    assert not list(ceiling_checks(run, ASSUMED))
    assert not list(ceiling_checks(run, None))


def test_an_external_address_must_be_allowed() -> None:
    """An address outside the cluster must be on the operator's list."""
    run = _external(url="http://host:80")
    allowing = ASSUMED.model_copy(update={"external_allow_list": ["host"]})
    _only(reference_checks(run, Named({}, settings=allowing)), "ok")
    _only(reference_checks(run, Named({}, settings=ASSUMED)), "blocked", "(nothing)")
    _only(reference_checks(run, Named({})), "unknown")


def test_each_check_is_a_line_and_the_end_counts_them() -> None:
    """States are a column; the summary counts blocking problems, warnings and unknowns."""
    checks = [Check("ok", "nodes", "fine"), Check("unknown", "quota", "two\nlines")]
    assert [*lines(checks)] == ["ok       nodes  fine", "unknown  quota  two lines"]
    assert summary(checks, "x") == "Nothing blocks x; 1 unknown."
    both = [Check("blocked", "a", "b")] * 2 + [Check("warning", "a", "b")]
    assert summary(both, "x") == "2 problems block x; 1 warning."
