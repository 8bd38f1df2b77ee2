"""A run is carried out only if it is valid, available and allowed."""

import copy
from typing import Any

import pytest

from inferometer_api.runtimes.custom import AllowedServer
from inferometer_operator.reconcile.acceptance import Rejection, is_allowed_url, parse_run
from inferometer_operator.reconcile.observed import EndpointList, ObjectReference, QueuePosition
from inferometer_operator.reconcile.references import raw_references
from inferometer_operator.settings import Settings
from support.cluster_objects import Object
from support.condition_rows import a_cluster, complete, external, measuring
from support.pretend_api import stored
from support.pretend_cluster import SETTINGS, PretendCluster
from support.runs import a_run, an_external_run

S3 = {"uri": "s3://bucket/resnet50.onnx", "credentialsSecret": "keys"}
SECRET = ObjectReference("Secret", "keys", "spec.model.credentialsSecret", "s3")
LABEL = {"inferometer.dev/allow-use": "true"}
FOR_S3 = {"inferometer.dev/allow-use": "s3"}


def test_a_spec_is_judged_by_the_model_of_the_api() -> None:
    """A valid spec is read with its defaults; another is rejected as InvalidSpec."""
    taken, refused = parse_run(stored(a_run())), parse_run(stored(a_run(load={"seed": -1})))
    assert not isinstance(taken, Rejection)
    assert taken.spec.load.connections >= 1
    assert isinstance(refused, Rejection)
    assert refused.reason == "InvalidSpec"


def test_every_problem_of_a_spec_is_reported() -> None:
    """All problems are listed at once, each with its field."""
    cluster = a_cluster({"load": {"seed": -1}, "validity": {"repeats": 0}}).settle()
    message = cluster.message("Accepted")
    assert message.startswith("2 problems. ")
    assert "spec.load.seed" in message
    assert "spec.validity.repeats" in message
    assert cluster.says("Finished") == ("True", "Failed")
    assert cluster.writes == ["status Failed", "event InvalidSpec"]


def test_what_the_api_server_adds_is_no_problem() -> None:
    """Managed fields, annotations and whatever metadata a later version has are left aside."""
    run = stored(a_run(), managedFields=[{"manager": "kubectl"}] * 50, novelty={"a": 1})
    run["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": "x" * 9}
    run["status"] = {"phase": "Pending", "novelty": 1, "conditions": [{"type": "Novel"}]}
    cluster = PretendCluster(run=run).settle()
    assert cluster.says("Accepted") == ("True", "Accepted")
    plan = cluster.schedule().children["ConfigMap/a-run-load"]["data"]["plan.json"]
    assert "last-applied" not in plan


def test_an_unreadable_run_leaves_nothing_behind() -> None:
    """An operator of another version began it: its children go, and it fails."""
    cluster = measuring()
    cluster.run["spec"] = {"novelty": 1}
    cluster.settle()
    assert cluster.says("Failed") == ("True", "InvalidSpec")
    assert cluster.finished
    assert cluster.children == {}
    assert cluster.later(604_800).gone


def test_a_finished_unreadable_run_keeps_its_outcome() -> None:
    """Its verdict is not rewritten."""
    cluster = complete().collect_garbage()
    conditions = copy.deepcopy(cluster.status()["conditions"])
    cluster.run["spec"] = {"novelty": 1, "retention": {"ttlSecondsAfterFinished": 10}}
    cluster.settle()
    assert cluster.status()["conditions"] == conditions
    assert cluster.later(10).gone


def test_a_misspelt_model_of_the_zoo_ends_a_run_at_once() -> None:
    """The message has the nearest names; no child is created, and no later look changes that."""
    cluster = a_cluster({"model": {"uri": "zoo://classification/resnet5"}}).settle()
    assert cluster.says("Accepted") == ("False", "NotAvailable")
    assert cluster.says("Failed") == ("True", "NotAvailable")
    assert cluster.says("Finished") == ("True", "Failed")
    assert "classification/resnet50" in cluster.message("Failed")
    assert cluster.children == {}


def test_secrets_are_for_operators_that_allow_them() -> None:
    """Without the setting no run may name one, whatever label it carries."""
    refused = a_cluster({"model": S3}, references={SECRET: {"labels": FOR_S3}}).settle()
    assert refused.says("Accepted") == ("False", "NotAllowed")
    assert "allowSecrets" in refused.message("Accepted")
    settings = SETTINGS.model_copy(update={"allow_secrets": True})
    taken = a_cluster({"model": S3}, references={SECRET: {"labels": FOR_S3}}, settings=settings)
    assert taken.settle().says("Accepted") == ("True", "Accepted")


@pytest.mark.parametrize(
    "labels",
    [{}, None, *({"inferometer.dev/allow-use": use} for use in ("false", "true", "headers"))],
)
def test_only_what_carries_the_label_may_be_named(labels: dict[str, str] | None) -> None:
    """Its value must be the purpose; an object without any labels is refused too."""
    settings = SETTINGS.model_copy(update={"allow_secrets": True})
    found = {} if labels is None else {"labels": labels}
    cluster = a_cluster({"model": S3}, references={SECRET: found}, settings=settings).settle()
    assert cluster.says("Accepted") == ("False", "NotAllowed")
    assert "spec.model.credentialsSecret" in cluster.message("Accepted")


def test_keys_of_a_store_cannot_be_sent_as_headers() -> None:
    """The author of a run chooses the server, which would read them."""
    settings = SETTINGS.model_copy(update={"allow_secrets": True})
    run: dict[str, Any] = {"model": S3, "load": {"headersSecret": "keys"}}
    references = {each: {"labels": FOR_S3} for each in raw_references(stored(a_run(**run)))}
    cluster = a_cluster(run, references=references, settings=settings).settle()
    assert cluster.says("Accepted") == ("False", "NotAllowed")
    message = cluster.message("Accepted")
    assert "spec.load.headersSecret: the Secret keys does not carry" in message
    assert "allow-use=headers" in message
    assert "allow-use=s3" not in message


def test_a_reference_that_was_not_read_counts_as_missing() -> None:
    """An edge that forgot to look at a reference lets nothing pass."""
    settings = SETTINGS.model_copy(update={"allow_secrets": True})
    cluster = a_cluster({"model": S3}, settings=settings).settle().later(6)
    assert cluster.says("Accepted") == ("False", "NotFound")


def test_what_a_run_names_may_come_with_it() -> None:
    """Objects of one folder are made in any order: for 5 s nothing is refused."""
    claim = ObjectReference("PersistentVolumeClaim", "models", "spec.model.uri")
    cluster = a_cluster({"model": {"uri": "pvc://models/resnet50.onnx"}}).settle()
    assert cluster.says("Accepted") is None
    assert cluster.decided().look_again_seconds == 1
    cluster.references[claim] = {"labels": LABEL}
    assert cluster.later(1).says("Accepted") == ("True", "Accepted")


def test_every_object_that_a_run_names_is_a_reference() -> None:
    """Of model, inputs, headers, certificates and traces, each with its path."""
    run = stored(
        a_run(
            model=S3,
            load={
                "inputs": {"file": {"uri": "configmap://data/inputs.npz"}},
                "headersSecret": "headers",
                "tls": {"caSecret": "ca", "clientSecret": "client"},
            },
            scenarios=[{"name": "one", "trace": {"uri": "pvc://traces/day.csv"}}],
        )
    )
    assert set(raw_references(run)) == {
        SECRET,
        ObjectReference("Secret", "headers", "spec.load.headersSecret", "headers"),
        ObjectReference("Secret", "ca", "spec.load.tls.caSecret", "tls"),
        ObjectReference("Secret", "client", "spec.load.tls.clientSecret", "tls"),
        ObjectReference("ConfigMap", "data", "spec.load.inputs.file.uri"),
        ObjectReference("PersistentVolumeClaim", "traces", "spec.scenarios[0].trace.uri"),
    }
    mix = [{"model": each, "weight": 1} for each in ("resnet50", "m")]
    mixed = a_run(
        otherModels=[{"uri": "pvc://models/m.onnx"}],
        scenarios=[{"name": "one", "mix": mix, "singleStream": {}}],
    )
    assert set(raw_references(stored(mixed))) == {
        ObjectReference("PersistentVolumeClaim", "models", "spec.otherModels[0].uri")
    }
    assert raw_references({"spec": {"novelty": 1}}) == ()
    assert raw_references({}) == ()


@pytest.mark.parametrize("kind", ["ExternalName"])
def test_a_service_that_leads_anywhere_is_refused(kind: str) -> None:
    """An ExternalName would lead the load wherever its author wants."""
    cluster = external()
    cluster.service = {"spec": {"type": kind, "externalName": "metadata.internal"}}
    assert cluster.settle().says("Accepted") == ("False", "NotAllowed")
    assert "ExternalName" in cluster.message("Accepted")


_OWN = {"kind": "Pod", "namespace": "team", "name": "mine", "uid": "u"}
_NO_SELECTOR = {"spec": {"ports": [{"port": 8000}]}}


@pytest.mark.parametrize(
    ("endpoint", "words"),
    [
        ({"addresses": ["10.0.0.1"]}, "10.0.0.1 in its EndpointSlices is no pod of the namespace"),
        ({"addresses": ["10.0.0.1"], "targetRef": {**_OWN, "kind": "Node"}}, "is no pod"),
        ({"addresses": ["10.0.0.1"], "targetRef": {**_OWN, "namespace": "other"}}, "is no pod"),
        ({"addresses": ["10.0.0.1"], "targetRef": {**_OWN, "uid": "invented"}}, "is no pod"),
        ({"addresses": ["10.0.0.1"], "targetRef": _OWN}, ""),
        (None, "no EndpointSlices that name pods"),
    ],
)
def test_a_service_without_a_selector_must_lead_to_pods_of_its_namespace(
    endpoint: dict[str, Any] | None, words: str
) -> None:
    """Of default/kubernetes it is the API server, of others any host."""
    cluster = external()
    cluster.service = _NO_SELECTOR
    found = [] if endpoint is None else [{"nodeName": "n", **endpoint}]
    slices = ({"addressType": "IPv4", "endpoints": found},)
    cluster.behind_service = EndpointList(slices, pods=frozenset({("n", "u")}))
    cluster.settle().later(5)
    assert cluster.says("Accepted") == (("False", "NotAllowed") if words else ("True", "Accepted"))
    assert words in cluster.message("Accepted")


_NEW = {"nodeName": "n", "addresses": ["10.0.0.1"], "targetRef": _OWN}


@pytest.mark.parametrize("early", [[], [_NEW]], ids=["no endpoint", "not in the list of pods"])
def test_endpoints_without_a_selector_may_be_late(early: list[Object]) -> None:
    """A few seconds after the run, like the objects that it names."""
    cluster = external()
    cluster.service = _NO_SELECTOR
    cluster.behind_service = EndpointList(({"addressType": "IPv4", "endpoints": early},))
    assert cluster.settle().later(4).says("Accepted") is None
    slices = ({"addressType": "IPv4", "endpoints": [_NEW]},)
    cluster.behind_service = EndpointList(slices, pods=frozenset({("n", "u")}))
    assert cluster.settle().says("Accepted") == ("True", "Accepted")


_BACKED = EndpointList(
    ({"addressType": "IPv4", "endpoints": [_NEW]},), pods=frozenset({("n", "u")})
)
_REPLACED = EndpointList(({"addressType": "IPv4", "endpoints": [_NEW]},))
"""The pod is newer than the list of pods."""


@pytest.mark.parametrize("late_seconds", [4, 5])
def test_the_pods_of_a_queued_run_may_be_replaced(late_seconds: int) -> None:
    """They may be late however old the run is: it counts from when they were missed."""
    cluster = external()
    cluster.turn = QueuePosition(admitted=False, position=1)
    cluster.service, cluster.behind_service = _NO_SELECTOR, _BACKED
    cluster.settle().later(3600)
    cluster.behind_service = _REPLACED
    cluster.settle().later(late_seconds)
    refused = late_seconds == 5
    assert cluster.says("Accepted") == (("False", "NotAllowed") if refused else ("True", "Queued"))
    cluster.behind_service = _BACKED
    cluster.settle()
    assert cluster.says("Accepted") == (("False", "NotAllowed") if refused else ("True", "Queued"))


@pytest.mark.parametrize("late_seconds", [4, 5])
def test_the_pods_of_a_run_that_has_begun_may_be_replaced(late_seconds: int) -> None:
    """No load begins meanwhile, and the run ends as soon as they are no longer only late."""
    cluster = external()
    cluster.service, cluster.behind_service = _NO_SELECTOR, _BACKED
    cluster.step()
    assert cluster.says("Accepted") == ("True", "Accepted")
    del cluster.children[cluster.load]
    cluster.run["status"]["conditions"] = [
        each for each in cluster.run["status"]["conditions"] if each["type"] != "Measuring"
    ]
    made = cluster.jobs_made
    cluster.behind_service = _REPLACED
    cluster.settle().later(late_seconds)
    assert cluster.jobs_made == made
    cluster.behind_service = _BACKED
    cluster.settle()
    if late_seconds == 5:
        assert cluster.says("Failed") == ("True", "NotAllowed")
        assert "became one without a selector" in cluster.message("Failed")
        assert "waited" not in cluster.message("Failed")
    else:
        assert cluster.jobs_made == made + 1
        assert cluster.says("ServerReady") == ("Unknown", "External")


@pytest.mark.parametrize("change", [{"kind": "Node"}, {"namespace": "other"}])
def test_an_endpoint_elsewhere_is_refused_at_once(change: dict[str, str]) -> None:
    """No pod of the namespace can become one that it leads to."""
    cluster = external()
    cluster.service = _NO_SELECTOR
    endpoint = {**_NEW, "targetRef": {**_OWN, **change}}
    cluster.behind_service = EndpointList(({"addressType": "IPv4", "endpoints": [endpoint]},))
    assert cluster.settle().says("Accepted") == ("False", "NotAllowed")


@pytest.mark.parametrize("backends", [None, EndpointList(refusal="endpointslices is forbidden")])
def test_a_service_whose_slices_are_unknown_is_refused(backends: EndpointList | None) -> None:
    """An operator that may not look lets nothing pass."""
    cluster = external()
    cluster.service, cluster.behind_service = _NO_SELECTOR, backends
    assert cluster.settle().says("Accepted") == ("False", "NotAllowed")
    assert "EndpointSlices" in cluster.message("Accepted")


@pytest.mark.parametrize(
    ("url", "listed", "passes"),
    [
        ("http://models.example:8000", ["models.example:8000"], True),
        ("http://models.example:8000/v2", ["models.example"], True),
        ("http://models.example:8001", ["models.example:8000"], False),
        ("http://models.example", ["models.example:80"], True),
        ("grpc://models.example", ["models.example:8001"], True),
        ("grpc://models.example", ["models.example:80"], False),
        ("http://models.example", ["models.example:8001"], False),
        ("ftp://models.example", ["models.example:80"], False),
        ("grpc://a.b.example:8001", ["*.example"], True),
        ("grpc://a.b.example:8001", ["*.example:8001"], True),
        ("grpc://example:8001", ["*.example"], False),
        ("http://badexample:8000", ["*.example"], False),
        ("http://MODELS.Example:8000", ["models.example"], True),
        ("http://models.example.:8000", ["models.example"], True),
        ("http://[fd00::1]:8000", ["[fd00::1]:8000"], True),
        ("http://[fd00::1]:8000", ["[fd00::1]"], True),
        ("http://169.254.169.254", ["models.example"], False),
        ("http://models.example.evil:8000", ["models.example"], False),
        ("http://models.example:port", ["models.example"], False),
        ("http://models.example:8000", [], False),
    ],
)
def test_the_allow_list_matches_whole_host_names(
    url: str, listed: list[str], *, passes: bool
) -> None:
    """A host of the list passes on its port, a name below a suffix too, and nothing else."""
    assert is_allowed_url(url, listed) == passes


def test_an_address_that_is_not_listed_is_refused_with_the_list() -> None:
    """The sentence says what is allowed, and what to do instead."""
    run = stored(an_external_run())
    settings: Settings = SETTINGS.model_copy(update={"external_allow_list": ["models.example"]})
    refused = PretendCluster(run=run, settings=settings).settle()
    assert refused.says("Accepted") == ("False", "NotAllowed")
    assert "externalAllowList: models.example" in refused.message("Accepted")
    listed = SETTINGS.model_copy(update={"external_allow_list": ["127.0.0.1"]})
    taken = PretendCluster(run=stored(an_external_run()), settings=listed).settle()
    assert taken.says("Accepted") == ("True", "Accepted")


def test_a_custom_server_that_is_not_allowed_is_refused_with_those_that_are() -> None:
    """Authors name an entry of the admin's; image and arguments come from there."""
    image = f"mirror/ovms@sha256:{'0' * 64}"
    entry = AllowedServer(image=image, arguments=["--port={grpcPort}"], grpc_port=9000)
    settings: Settings = SETTINGS.model_copy(update={"allowed_servers": {"ovms": entry}})
    run = stored(a_run(server={"runtime": "Custom", "custom": {"name": "other"}}))
    refused = PretendCluster(run=run, settings=settings).settle()
    assert refused.says("Accepted") == ("False", "NotAllowed")
    assert "allowedServers: ovms" in refused.message("Accepted")
    run = stored(a_run(server={"runtime": "Custom", "custom": {"name": "ovms"}}))
    taken = PretendCluster(run=run, settings=settings).settle()
    assert taken.says("Accepted") == ("True", "Accepted")
    (job,) = (each for name, each in taken.children.items() if name.endswith("-server"))
    (server,) = job["spec"]["template"]["spec"]["containers"]
    assert (server["image"], server["args"]) == (image, ["--port=9000"])
    assert "command" not in server
