"""The course of events that gives a condition each of its reasons, a row each.

The catalogue (`inferometer_api.status.condition_reasons`) and these rows
are compared in a contract test.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from inferometer_api.plan.cluster_objects import ALLOW_USE_LABEL
from inferometer_api.plan.exporting import ExportReport
from inferometer_api.results.result import Finding, Outcome
from inferometer_api.status.condition_reasons import Place, ReasonName
from inferometer_operator.reconcile.conditions import read_status
from inferometer_operator.reconcile.observed import (
    DownloadedResult,
    InferenceObjects,
    KnownManifest,
    KueueObjects,
    ObjectReference,
    QueuePosition,
)
from inferometer_operator.reconcile.status_size import least_status
from inferometer_operator.settings import Ceilings, KServe, ResultsServiceSettings, Settings
from support.kueue_objects import QUEUED_RUN_LABELS, a_flavor, admitted, evicted, inadmissible
from support.pretend_api import stored
from support.pretend_cluster import SETTINGS, PretendCluster
from support.results import a_valid_result
from support.runs import a_run, an_external_run

Course = Callable[[], PretendCluster]


@dataclass(frozen=True, slots=True)
class Row:
    """One reason of one condition, and the course of events that gives it."""

    place: Place
    reason: ReasonName
    course: Course
    says: tuple[str, ...] = ()
    """What its message says."""

    @property
    def name(self) -> str:
        """How the row is called in a test's name."""
        return f"{'-'.join(self.place)}-{self.reason}"


def a_cluster(spec: dict[str, Any] | None = None, **facts: Any) -> PretendCluster:
    """Return a cluster with a run before its first reconciliation."""
    return PretendCluster(run=stored(a_run(**(spec or {}))), **facts)


def for_kueue(spec: dict[str, Any] | None = None) -> PretendCluster:
    """Return a cluster with Kueue and a run that it must admit."""
    run = a_run(**(spec or {}))
    run["metadata"]["labels"] = QUEUED_RUN_LABELS
    flavors = {"default": a_flavor({"pool": "measured"})}
    return PretendCluster(run=stored(run), kueue=KueueObjects(flavors)).settle()


def for_kserve(spec: dict[str, Any] | None = None) -> PretendCluster:
    """Return a cluster with KServe and a run that uses it, before its first reconciliation."""
    server = {"runtime": "KServe", **((spec or {}).get("server") or {})}
    run = stored(a_run(**{**(spec or {}), "server": server}))
    settings = SETTINGS.model_copy(update={"kserve": KServe(enabled=True)})
    return PretendCluster(run=run, settings=settings, inference=InferenceObjects())


def without_kserve() -> PretendCluster:
    """Return a cluster without KServe, and a run that needs it."""
    cluster = for_kserve()
    cluster.inference = InferenceObjects(refusal="the cluster serves no InferenceServices")
    return cluster.settle()


def kserve_fails() -> PretendCluster:
    """Return a cluster whose KServe warns that it cannot deploy a server."""
    cluster = for_kserve().settle()
    uid = cluster.children[cluster.server]["metadata"]["uid"]
    cluster.events = [{"involvedObject": {"uid": uid}, "message": "no runtime"}]
    return cluster.later(5)


def external(**server: Any) -> PretendCluster:
    """Return a cluster with a run against a Service."""
    target = {"service": {"name": "theirs", "port": 8000}}
    spec = {"runtime": "External", "external": target, **server}
    return PretendCluster(run=stored(an_external_run(server=spec)))


def serving(spec: dict[str, Any] | None = None) -> PretendCluster:
    """Return a cluster whose server is ready and whose load generator prepares."""
    return a_cluster(spec).settle().schedule().start_server().start_load()


def measuring() -> PretendCluster:
    """Return a cluster that measures."""
    return serving().measure()


PREEMPTED = evicted("Preempted", "Preempted to accommodate a workload")
VALID = a_valid_result()
"""What a load generator finds where all is well."""


def over(cluster: PretendCluster) -> PretendCluster:
    """Let the load generator of a run end well."""
    return cluster.end_load(document=VALID)


def complete() -> PretendCluster:
    """Return a cluster with a run that is complete."""
    return over(measuring())


def failing(state: str, reason: str, message: str = "It was so.") -> Course:
    """Return the course in which the load generator ends so."""
    outcome = Outcome(state=state, reason=reason, message=message)  # type: ignore[arg-type] # a test's own word
    return lambda: measuring().end_load(1, outcome).later(6)


def changed(cluster: PretendCluster, **spec: Any) -> PretendCluster:
    """Let a person change the spec."""
    cluster.run["spec"].update(spec)
    cluster.run["metadata"]["generation"] += 1
    return cluster.settle()


def _collected(reason: Any, undelivered: str = "") -> Course:
    def course() -> PretendCluster:
        cluster = measuring()
        assert cluster.report is not None
        cluster.report = cluster.report.model_copy(update={"document_missing_reason": undelivered})
        return cluster.end_load(document=DownloadedResult(None, "A line is missing.", reason))

    return course


def _cautioned(*messages: str) -> PretendCluster:
    """Return a cluster with a run whose two scenarios carry the same cautions."""
    cautions = [Finding(rule="r", message=f"{each}.", figure="1", limit="2") for each in messages]
    verdict = VALID.scenarios[0].verdict.model_copy(update={"cautions": cautions})
    scenarios = [
        VALID.scenarios[0].model_copy(update={"name": name, "verdict": verdict})
        for name in ("one", "two")
    ]
    spec: dict[str, Any] = {
        "scenarios": [{"name": name, "singleStream": {}} for name in ("one", "two")]
    }
    document = VALID.model_copy(update={"scenarios": scenarios})
    return serving(spec).measure().end_load(document=document)


def refused() -> PretendCluster:
    """Return a cluster with a run whose result the API server refuses to keep."""
    cluster = measuring()
    cluster.refusals["ConfigMap/a-run-result-0c9e8f3a-0"] = (403, "exceeded quota: things")
    return over(cluster)


UNREAD = DownloadedResult(None, "The kubelet does not answer.", "ResultLost", passing=True)


def _given_up(reason: Any) -> Course:
    """Return the course in which the result of a cancelled run is given up."""

    def course() -> PretendCluster:
        cluster = changed(measuring(), cancel=True)
        return cluster.end_load(143, document=DownloadedResult(None, "It is not there.", reason))

    return course


EXPORT = {"retention": {"export": {"uri": "s3://kept/of/team", "credentialsSecret": "keys"}}}


def exporting(spec: dict[str, Any] | None = None) -> PretendCluster:
    """Return a cluster that measures a run whose result is to be exported."""
    cluster = a_cluster({**EXPORT, **(spec or {})})
    keys = ObjectReference(
        "Secret", "keys", "spec.retention.export.credentialsSecret", use="export"
    )
    cluster.references[keys] = {"labels": {ALLOW_USE_LABEL: "export"}}
    cluster.settings = cluster.settings.model_copy(update={"allow_secrets": True})
    return cluster.settle().schedule().start_server().start_load().measure()


def _not_exported() -> PretendCluster:
    report = ExportReport(error="No such bucket.")
    return over(exporting()).end_exporter(2, report)


def _not_exported_of_a_failed_run() -> PretendCluster:
    cluster = changed(exporting(), cancel=True).end_load(143, document=VALID)
    return cluster.end_exporter(2, ExportReport(error="No such bucket."))


def _not_kept_of_a_failed_run() -> PretendCluster:
    cluster = changed(measuring(), cancel=True)
    cluster.refusals["ConfigMap/a-run-result-0c9e8f3a-0"] = (403, "exceeded quota: things")
    return cluster.end_load(143, document=VALID).later(2 * 3600)


def _status_refused(course: Course) -> Course:
    """Return the course after which another operator finds the least status."""

    def refused() -> PretendCluster:
        cluster = course()
        least = least_status(read_status(cluster.run), "No figures here.")
        cluster.run["status"] = least.model_dump(mode="json", exclude_none=True)
        return cluster

    return refused


def _referring(labels: dict[str, str] | None) -> PretendCluster:
    cluster = a_cluster({"model": {"uri": "pvc://models/resnet50.onnx"}})
    claim = ObjectReference("PersistentVolumeClaim", "models", "spec.model.uri")
    cluster.references[claim] = None if labels is None else {"labels": labels}
    return cluster.settle().later(6)


def _bounded(workers: int) -> Settings:
    return SETTINGS.model_copy(update={"ceilings": Ceilings(workers=workers)})


def _external_ready() -> PretendCluster:
    cluster = external()
    cluster.service = {"spec": {"selector": {"app": "theirs"}}}
    return cluster.settle().start_load()


def other_port(cluster: PretendCluster) -> PretendCluster:
    """Let the Service of an External server have other ports than the spec."""
    ports = [{"port": 8001, "name": "grpc"}, {"port": 8000, "protocol": "UDP"}]
    spec = {"ports": ports, "selector": {"app": "theirs"}}
    cluster.service = {"metadata": {"name": "theirs"}, "spec": spec}
    return cluster.settle()


def _external_elsewhere() -> PretendCluster:
    cluster = external().settle()
    cluster.service = {"spec": {"type": "ExternalName"}}
    return cluster.settle()


_ACCEPTED: Place = ("Accepted", "True")
_REFUSED: Place = ("Accepted", "False")
_FAILED: Place = ("Failed", "True")
_COMPLETE: Place = ("Complete", "True")
_WAITS: Place = ("Measuring", "False")
_NOT_READY: Place = ("ServerReady", "False")

_UNFINISHED: Place = ("Finished", "False")
_LOST_REASONS: tuple[ReasonName, ...] = ("ResultIncomplete", "ResultTooLarge", "ResultLost")

_INVALID = {"scenarios": [{"name": "none"}]}
_UNAVAILABLE = {"server": {"runtime": "MLServer", "precision": "BF16"}}


def _both(reason: ReasonName, course: Course, *says: str) -> list[Row]:
    return [Row(place, reason, course, says) for place in (_REFUSED, _FAILED)]


def _delivered(store: Literal["takes", "away", "refuses"]) -> Course:
    """Return the course of a run that a results service takes, or does not."""
    service = ResultsServiceSettings(url="https://results.test", token_file="/token")  # noqa: S106 - a path
    settings = SETTINGS.model_copy(update={"results": service})

    def course() -> PretendCluster:
        cluster = measuring()
        cluster.settings, cluster.store = settings, store
        return over(cluster)

    return course


PROGRESS_ROWS: list[Row] = [
    Row(_ACCEPTED, "Accepted", lambda: a_cluster().settle()),
    Row(
        _ACCEPTED,
        "Queued",
        lambda: a_cluster(
            turn=QueuePosition(admitted=False, position=2, ahead="team/other")
        ).settle(),
        ("Position 2", "team/other"),
    ),
    Row(_ACCEPTED, "AdmissionPending", for_kueue, ("a-run-workload",)),
    Row(
        _ACCEPTED,
        "Inadmissible",
        lambda: for_kueue().play_kueue(inadmissible("LocalQueue team-queue doesn't exist")),
        ("LocalQueue team-queue doesn't exist. Create or start the queue",),
    ),
    Row(_ACCEPTED, "Admitted", lambda: for_kueue().play_kueue(admitted()), ("team-queue",)),
    Row(
        _FAILED,
        "Preempted",
        lambda: for_kueue().play_kueue(admitted()).play_kueue(PREEMPTED),
        ("a-run-workload (Preempted): Preempted to accommodate a workload.", "Create a new run"),
    ),
    Row(_ACCEPTED, "Suspended", lambda: a_cluster({"suspend": True}).settle(), ("is suspended",)),
    Row(_FAILED, "Suspended", lambda: changed(measuring(), suspend=True), ("spec.suspend",)),
    Row(_ACCEPTED, "Cancelled", lambda: a_cluster({"cancel": True}).settle()),
    Row(_FAILED, "Cancelled", lambda: changed(measuring(), cancel=True), ("spec.cancel",)),
    Row(
        _FAILED,
        "DeadlineExceeded",
        lambda: measuring().later(3600),
        ("3600 s", "spec.activeDeadlineSeconds"),
    ),
    *_both(
        "InvalidSpec",
        lambda: a_cluster(_INVALID).settle(),
        "spec.scenarios[0]: set exactly one of singleStream",
    ),
    *_both("NotAvailable", lambda: a_cluster(_UNAVAILABLE).settle(), "spec.server.precision"),
    *_both("NotAllowed", lambda: _referring({}), f"{ALLOW_USE_LABEL}=true", "models"),
    Row(_NOT_READY, "NotAllowed", _external_elsewhere, ("ExternalName",)),
    *_both("ServicePortNotFound", lambda: other_port(external()), "no TCP port 8000", "8001"),
    *_both("KServeNotFound", without_kserve, "Install KServe"),
    Row(_NOT_READY, "KServeFailed", kserve_fails, ("no runtime",)),
    Row(_FAILED, "KServeFailed", lambda: kserve_fails().later(300), ("no runtime",)),
    Row(_NOT_READY, "ServicePortNotFound", lambda: other_port(external().settle()), ("8001",)),
    *_both(
        "CeilingExceeded",
        lambda: a_cluster({"load": {"workers": 3}}, settings=_bounded(2)).settle(),
        "spec.load.workers: 3 ",
        "ceiling of 2 ",
    ),
    *_both("NotFound", lambda: _referring(None), "models does not exist"),
    Row(
        _REFUSED,
        "TaskRefused",
        lambda: a_cluster(model_manifest=KnownManifest(problem="No.")).settle(),
        ("spec.model.manifest: No.",),
    ),
    Row(_NOT_READY, "ServerStarting", lambda: a_cluster().settle(), ("a-run-server",)),
    Row(("ServerReady", "True"), "Ready", serving),
    Row(("ServerReady", "Unknown"), "External", _external_ready),
    Row(_NOT_READY, "CleanedUp", lambda: complete().collect_garbage()),
    Row(_WAITS, "LoadStarting", lambda: a_cluster().settle().schedule()),
    Row(_WAITS, "Preparing", serving),
    Row(("Measuring", "True"), "Measuring", measuring, ("latency (1 of 1)",)),
    Row(("Measuring", "True"), "Stopping", lambda: changed(measuring(), cancel=True)),
    Row(_WAITS, "Ended", complete),
    Row(_COMPLETE, "Measured", complete, ("a-run-result-0c9e8f3a-0",)),
    Row(_COMPLETE, "ResultIncomplete", _collected("ResultIncomplete"), ("A line is missing.",)),
    Row(
        _COMPLETE,
        "ResultIncomplete",
        _collected("ResultIncomplete", "No space left on device."),
        ("No space left on device.",),
    ),
    Row(_COMPLETE, "ResultTooLarge", _collected("ResultTooLarge", "9 MB."), ("9 MB.",)),
    Row(_COMPLETE, "ResultLost", _collected("ResultLost")),
    Row(
        _COMPLETE,
        "ResultNotKept",
        lambda: refused().later(2 * 3600),
        ("exceeded quota: things",),
    ),
    Row(
        _UNFINISHED,
        "ResultPending",
        lambda: measuring().end_load(document=UNREAD),
        ("The kubelet does not answer. Retried until 2026-03-12T16:00:00", "delete the run"),
    ),
    *(
        Row(_UNFINISHED, reason, _given_up(reason), ("It is not there.",))
        for reason in _LOST_REASONS
    ),
    Row(_COMPLETE, "ExportFailed", _not_exported, ("No such bucket.", "a-run-result-0c9e8f3a-0")),
    Row(_UNFINISHED, "ExportFailed", _not_exported_of_a_failed_run, ("No such bucket.",)),
    Row(
        ("Stored", "True"),
        "Stored",
        _delivered("takes"),
        ("http://127.0.0.1:8091/results/0123abcd",),
    ),
    Row(("Stored", "False"), "StoreUnreachable", _delivered("away"), ("It was so.", "Retried at")),
    Row(("Stored", "False"), "StoreRefused", _delivered("refuses"), ("It was so.", "Retried at")),
    Row(_UNFINISHED, "ResultNotKept", _not_kept_of_a_failed_run, ("exceeded quota: things",)),
    Row(("Valid", "True"), "AllValid", complete),
    Row(("Valid", "True"), "AllValid", lambda: _cautioned("a", "b"), ("with 2 cautions.",)),
    Row(("Valid", "True"), "AllValid", lambda: _cautioned("a"), ("with one caution.",)),
    Row(("Valid", "False"), "Invalid", lambda: measuring().end_load(), ("traffic: The 99th",)),
    Row(("Valid", "False"), "NotComplete", failing("Failed", "NoAnswer")),
    *(
        Row(place, "StatusRefused", _status_refused(course), ("No figures here.", reason))
        for place, course, reason in (
            (_ACCEPTED, measuring, "Accepted"),
            (_COMPLETE, complete, "Measured"),
            (_FAILED, lambda: changed(measuring(), cancel=True), "Cancelled"),
            (("Finished", "True"), lambda: complete().collect_garbage(), "Complete"),
        )
    ),
    Row(("Finished", "True"), "Complete", lambda: complete().collect_garbage()),
    Row(("Finished", "True"), "Failed", lambda: a_cluster(_INVALID).settle()),
    Row(_FAILED, "RequestRefused", failing("Refused", "RequestRefused"), ("It was so.",)),
    Row(_FAILED, "Redirected", failing("Refused", "Redirected"), ("It was so.",)),
    Row(_FAILED, "ProtocolMismatch", failing("Refused", "ProtocolMismatch"), ("It was so.",)),
    Row(_FAILED, "TaskRefused", failing("Refused", "TaskRefused"), ("It was so.",)),
    Row(_FAILED, "AccessDenied", failing("Refused", "AccessDenied"), ("It was so.",)),
    Row(_FAILED, "TlsRefused", failing("Refused", "TlsRefused"), ("It was so.",)),
    Row(_FAILED, "WorkersNotReady", failing("Failed", "WorkersNotReady")),
    Row(_FAILED, "WorkerLost", failing("Failed", "WorkerLost")),
    Row(_FAILED, "NoAnswer", failing("Failed", "NoAnswer")),
    Row(_FAILED, "ServerLost", failing("Failed", "ServerLost")),
    Row(_FAILED, "InvalidPlan", failing("Refused", "InvalidPlan")),
    Row(_FAILED, "InternalError", failing("Failed", "InternalError")),
    Row(_FAILED, "LoadGeneratorFailed", failing("Failed", "SomethingNew")),
]
"""Every reason that is no fault of a pod or of another child."""
