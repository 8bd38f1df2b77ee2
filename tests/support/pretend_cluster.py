"""A cluster in memory that carries out the plans of a run.

It has no clock of its own. It carries plans out as the API server would, and a test plays
scheduler, kubelet and load generator.
"""

import functools
import re
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Literal

from inferometer_api.plan.cluster_objects import (
    COMPONENT_LABEL,
    JOB_INDEX_LABEL,
    LOADGEN,
    RESULT,
    RUN_UID_LABEL,
    SERVER,
    begun_name,
    inference_name,
    load_service_name,
    workload_name,
)
from inferometer_api.plan.exporting import ExportReport
from inferometer_api.plan.load_plan import ServerTargets
from inferometer_api.plan.load_report import LoadReport
from inferometer_api.plan.reports import ProgressReport
from inferometer_api.results.result import Outcome, ResultDocument
from inferometer_api.runtimes.table import is_by_kserve
from inferometer_api.timestamps import format_time
from inferometer_operator.reconcile.external_service import unbacked_run
from inferometer_operator.reconcile.make_plan import make_plan
from inferometer_operator.reconcile.observed import (
    ChildRole,
    Delivery,
    DownloadedResult,
    EndpointList,
    InferenceObjects,
    Json,
    KnownManifest,
    KueueObjects,
    ObjectReference,
    Observed,
    QueuePosition,
    Sightings,
)
from inferometer_operator.reconcile.plan import Plan
from inferometer_operator.reconcile.sightings import sight
from inferometer_operator.settings import Images, Settings
from support.cluster_objects import (
    Object,
    a_pod,
    bound,
    ended,
    running,
    server_pod,
    started,
    terminated,
    with_exporter,
)
from support.pretend_api import PretendApi
from support.result_logs import downloaded
from support.results import a_result

SETTINGS = Settings(
    images=Images(serving="r/serving:1", serving_gpu="r/serving-gpu:1", loadgen="r/loadgen:1")
)

_WATCHED_WRITE = r"refused |(make|delete) (Job|InferenceService)/|make Workload/|workload "
"""Writes whose news make the edges look again: ConfigMaps and a status of one's own do not.

A Workload is gone from the store as soon as it is deleted, and has no pods that report its end.
"""


@dataclass(slots=True)
class PretendCluster(PretendApi):
    """One run and all that there is of it."""

    settings: Settings = SETTINGS
    turn: QueuePosition = field(default_factory=lambda: QueuePosition(admitted=True))
    pods: dict[str, Object] = field(default_factory=dict)
    events: list[Object] = field(default_factory=list)
    references: dict[ObjectReference, Json | None] = field(default_factory=dict)
    model_manifest: KnownManifest | None = None
    service: Json | None = None
    agents: EndpointList | None = None
    behind_service: EndpointList | None = None
    kueue: KueueObjects | None = None
    inference: InferenceObjects | None = None
    report: LoadReport | None = None
    document: ResultDocument | DownloadedResult | None = None
    """What the load pod's log holds."""
    collected: DownloadedResult | None = None
    looks_again: bool = True
    """Whether anything makes the edges look again after the last step."""
    stops: int = 0
    handovers: list[ServerTargets] = field(default_factory=list)
    """The servers that were handed over, as often as they were."""
    sightings: Sightings | None = None
    store: Literal["takes", "away", "refuses"] = "takes"
    """What the results service does with a document, if the settings name one."""
    delivery: Delivery | None = None
    deliveries: int = 0
    document_bytes: int = 0
    """Size that the load generator reports for a document that its log does not hold."""

    @property
    def server(self) -> str:
        """The key of the server's Job or InferenceService."""
        name = self.run["metadata"]["name"]
        if is_by_kserve((self.run["spec"].get("server") or {}).get("runtime")):
            return f"InferenceService/{inference_name(name)}"
        return f"Job/{name}-server"

    @property
    def load(self) -> str:
        """The key of the load generator's Job."""
        return f"Job/{self.run['metadata']['name']}-load"

    @property
    def workload(self) -> str:
        """The key of the Workload."""
        return f"Workload/{workload_name(self.run['metadata']['name'])}"

    @property
    def jobs_made(self) -> int:
        """How often the load generator's Job was made."""
        return self.made[self.load]

    def observed(self) -> Observed:
        """Return what the edges would observe."""
        name = self.run["metadata"]["name"]
        labels = {RUN_UID_LABEL: self.run["metadata"]["uid"], COMPONENT_LABEL: RESULT}
        maps = [
            child
            for _, child in sorted(self.children.items())
            if labels.items() <= child["metadata"].get("labels", {}).items()
        ]
        children: dict[ChildRole, Json | None] = {
            "server": self.own(f"Job/{name}-server"),
            "inference": self.own(f"InferenceService/{inference_name(name)}"),
            "load": self.own(self.load),
            "plan": self.own(f"ConfigMap/{name}-load"),
            "begun": self.own(f"ConfigMap/{begun_name(name)}"),
            "loadService": self.own(f"Service/{load_service_name(name)}"),
            "workload": self.own(self.workload),
        }
        there = [self.run, *filter(None, children.values()), *self.pods.values()]
        unbacked = unbacked_run(self.run, self.service, self.behind_service)
        self.sightings = sight(self.sightings, there, self.now, unbacked=unbacked)
        return Observed(
            queue_position=self._position(),
            children=children,
            sightings=self.sightings,
            pods=tuple(self.pods.values()),
            result_maps=tuple(maps),
            events=tuple(self.events),
            references=self.references,
            model_manifest=self.model_manifest,
            service=self.service,
            agents=self.agents,
            behind_service=self.behind_service,
            kueue=self.kueue,
            inference=self.inference,
            refused=dict(self.refused),
            report=self.report,
            downloaded=self.collected,
            delivery=self.delivery,
        )

    def _position(self) -> QueuePosition:
        """Return the run's turn: none before its retry time, if it found no nodes."""
        pauses = "retryTime" in self.status().get("waitingForNodes", {})
        return replace(self.turn, admitted=False) if pauses else self.turn

    def decided(self) -> Plan:
        """Return what is decided now."""
        return make_plan(self.run, self.observed(), self.settings, self.now, "a-token")

    def step(self) -> bool:
        """Decide once and carry the plan out; return whether anything was written."""
        plan = self.decided()
        before = len(self.writes)
        self.write_status(plan)
        for child in plan.create:
            self.make(child)
        if plan.workload is not None:
            self.report_to_kueue(plan.workload)
        for target in plan.delete:
            self.delete(target.kind, target.name, target.uid)
        before_log = self.collected
        if plan.download is not None and (before_log is None or before_log.passing):
            self.collected = self._log()
        fresh = self.collected != before_log
        if plan.stop is not None:
            self.stops += 1
        if plan.handover is not None:
            self.handovers.append(plan.handover.targets)
        if plan.deliver:
            self.delivery = self._delivered()
            fresh = True
        self.looks_again = (
            fresh
            or plan.look_again_seconds is not None
            or ("startTime" in self.status() and not self.finished and not self.measures)
            or any(re.match(_WATCHED_WRITE, write) for write in self.writes[before:])
        )
        return fresh or len(self.writes) > before

    def settle(self, most: int = 12) -> "PretendCluster":
        """Decide until nothing more is written, each time as something makes the edges look."""
        looked = True
        for _ in range(most):
            if self.gone or not self.step():
                return self
            assert looked, f"nothing makes the edges look again: {self.writes[-3:]}"
            looked = self.looks_again
        raise AssertionError(f"no rest after {most} decisions: {self.writes[-8:]}")

    def later(self, seconds: float) -> "PretendCluster":
        """Let time pass, and decide."""
        self.now += timedelta(seconds=seconds)
        return self.settle()

    def pass_time(self) -> None:
        """Let time pass, in small and large steps, until every deadline is over."""
        for seconds in (1, 6, 31, 61, 301, 301, 301, 3601, 3601, 301):
            self.now += timedelta(seconds=seconds)
            self.settle()
            self.collect_garbage()

    def says(self, kind: str) -> tuple[str, str] | None:
        """Return a condition's value and reason, or None if it is not set."""
        for each in self.status().get("conditions", ()):
            if each["type"] == kind:
                return each["status"], each["reason"]
        return None

    def message(self, kind: str) -> str:
        """Return a condition's message."""
        found = [each for each in self.status()["conditions"] if each["type"] == kind]
        return str(found[0]["message"])

    @property
    def finished(self) -> bool:
        """Whether the run is Finished, or no more."""
        return self.gone or (self.says("Finished") or ("", ""))[0] == "True"

    @property
    def measures(self) -> bool:
        """Whether load is sent."""
        return (self.says("Measuring") or ("", ""))[0] == "True"

    def pod(self, component: str) -> Object:
        """Return a pod that the controller of a child makes now; no node has it yet."""
        made = self.made[self.server if component == SERVER else self.load]
        pod = a_pod(self.run, component, made=made)
        pod["metadata"]["creationTimestamp"] = format_time(self.now)
        return pod

    def restart_operator(self) -> None:
        """Forget all that only a process knows."""
        self.collected = self.delivery = None
        self.refused = {}
        self.sightings = None

    def play_kueue(self, status: Object) -> "PretendCluster":
        """Let Kueue write the status of the run's Workload."""
        self.children[self.workload]["status"] = status
        return self.settle()

    # What scheduler, kubelet and load generator do.

    def schedule(self, replicas: int = 1) -> "PretendCluster":
        """Give the server's pods nodes and addresses."""
        for number in range(1, replicas + 1):
            made = server_pod(self.run, number, made=self.made[self.server])
            pod = bound(made, f"node{number}", f"10.88.0.{number}")
            self.pods[pod["metadata"]["name"]] = pod
        return self.settle()

    def start_server(self, *, ready: bool = True) -> "PretendCluster":
        """Let the server pods run."""
        for name, pod in self._of(SERVER):
            self.pods[name] = started(pod, ready=ready, at=self.others_now)
        return self.settle()

    def start_load(self) -> "PretendCluster":
        """Let the load pod run."""
        pod = started(bound(self.pod(LOADGEN)), ready=True, at=self.others_now)
        self.pods[pod["metadata"]["name"]] = pod
        return self.settle()

    def make_worker(self, index: int) -> Object:
        """Let the Job make the pod of a worker of a fleet, which no node has yet."""
        pod = self.pod(LOADGEN)
        name = f"{self.run['metadata']['name']}-load-{index}"
        pod["metadata"] |= {"name": name, "uid": f"uid-of-{name}"}
        pod["metadata"]["labels"] |= {JOB_INDEX_LABEL: str(index)}
        self.pods[name] = pod
        return pod

    def measure(self, fraction: float = 0.5, **more: Any) -> "PretendCluster":
        """Let the load generator report its progress."""
        scenarios = self.run["spec"]["scenarios"]
        index = more.pop("scenario_index", 0)
        progress = ProgressReport(
            stage=more.pop("stage", "Measuring"),
            scenario=scenarios[index]["name"],
            scenario_index=index,
            scenario_count=len(scenarios),
            fraction=fraction,
            qps=more.pop("qps", 123.4),
            p99_nanoseconds=12_345_678,
            repeat=more.pop("repeat", 1),
            repeat_count=self.run["spec"].get("validity", {}).get("repeats", 1),
            server_pods=more.pop("server_pods", []),
        )
        done = list(self.report.scenarios) if self.report else []
        self.report = LoadReport(progress=progress, scenarios=more.pop("scenarios", done))
        return self.settle()

    def end_load(
        self,
        code: int = 0,
        outcome: Outcome | None = None,
        document: ResultDocument | DownloadedResult | None = None,
        **end: Any,
    ) -> "PretendCluster":
        """Let the load generator end."""
        outcome_or_default = outcome or Outcome(state="Complete", reason="Measured")
        if self.document is None:
            found = document or _measured()
            if isinstance(found, ResultDocument):
                found = found.model_copy(update={"outcome": outcome_or_default})
            self.document = found
        if code in {0, 1, 2, 143}:
            size = 1000 if isinstance(self.document, ResultDocument) else self.document_bytes
            self.report = replace_outcome(self.report, outcome_or_default, size)
        exports = self._has_exporter
        for name, pod in self._of(LOADGEN):
            self.pods[name] = ended(pod, code, at=self.others_now, **end)
            if exports:
                self.pods[name] = with_exporter(self.pods[name], running(self.others_now))
        return self.settle()

    def end_exporter(self, code: int = 0, report: ExportReport | None = None) -> "PretendCluster":
        """Let the exporter of the load pod end."""
        message = "" if report is None else report.model_dump_json(exclude_defaults=True)
        state = terminated(code, message, at=self.others_now)
        for name, pod in self._of(LOADGEN):
            self.pods[name] = with_exporter(pod, state)
        return self.settle()

    @property
    def _has_exporter(self) -> bool:
        return "export" in (self.run["spec"].get("retention") or {})

    def collect_garbage(self) -> "PretendCluster":
        """Let every pod go whose owner is gone."""
        for component, key in ((SERVER, self.server), (LOADGEN, self.load)):
            if key not in self.children:
                for name, _ in self._of(component):
                    del self.pods[name]
        return self.settle()

    def _of(self, component: str) -> list[tuple[str, Object]]:
        return [
            (name, pod)
            for name, pod in list(self.pods.items())
            if pod["metadata"]["labels"][COMPONENT_LABEL] == component
            and name.startswith(f"{self.run['metadata']['name']}-")
        ]

    def _delivered(self) -> Delivery:
        """Return what comes of a delivery of the ConfigMaps that the status lists."""
        self.deliveries += 1
        if self.store == "takes":
            names = self.status()["result"]["configMaps"]
            maps = [self.children[f"ConfigMap/{name}"]["metadata"] for name in names]
            return Delivery("0123abcd", tuple((each["name"], each["uid"]) for each in maps))
        reason: Literal["StoreUnreachable", "StoreRefused"] = (
            "StoreUnreachable" if self.store == "away" else "StoreRefused"
        )
        retry_at = self.now + timedelta(seconds=5)
        return Delivery(reason=reason, fault="It was so.", retry_at=retry_at)

    def _log(self) -> DownloadedResult:
        if isinstance(self.document, DownloadedResult):
            return self.document
        if self.document is None:
            return DownloadedResult(None, "The log holds no result document.")
        return downloaded(self.document)


@functools.cache
def _measured() -> ResultDocument:
    return a_result()


def replace_outcome(
    report: LoadReport | None, outcome: Outcome, document_bytes: int = 0
) -> LoadReport:
    """Return a report of a load generator that has ended."""
    update = {"progress": None, "outcome": outcome, "document_bytes": document_bytes}
    return (report or LoadReport()).model_copy(update=update)
