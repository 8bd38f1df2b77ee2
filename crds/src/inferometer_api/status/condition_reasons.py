"""Catalogue of the reasons of a run's conditions: what each means, and what to do."""

from dataclasses import dataclass
from typing import Literal

from inferometer_api.status.run_status import ConditionType

ReasonName = Literal[
    "Accepted",
    "Queued",
    "WaitingForNodes",
    "AdmissionPending",
    "Inadmissible",
    "Admitted",
    "Suspended",
    "Cancelled",
    "DeadlineExceeded",
    "InvalidSpec",
    "NotAvailable",
    "NotAllowed",
    "NotFound",
    "CeilingExceeded",
    "ServerStarting",
    "Ready",
    "External",
    "CleanedUp",
    "LoadStarting",
    "Preparing",
    "Measuring",
    "Stopping",
    "Ended",
    "Measured",
    "ResultPending",
    "ResultIncomplete",
    "ResultTooLarge",
    "ResultLost",
    "ResultNotKept",
    "ExportFailed",
    "AllValid",
    "Invalid",
    "NotComplete",
    "StatusRefused",
    "Complete",
    "Failed",
    "ImageNotPulled",
    "ImageNameInvalid",
    "ImageNotRemoved",
    "Unschedulable",
    "GpuUnavailable",
    "VolumeNotBound",
    "QuotaExceeded",
    "LimitRangeRefused",
    "AdmissionRefused",
    "CreationRefused",
    "NameClash",
    "ContainerNotStarted",
    "ModelNotFetched",
    "ModelRefused",
    "ServerCrashed",
    "ServerRefused",
    "ServerNotReady",
    "KServeNotFound",
    "KServeFailed",
    "ServiceNotFound",
    "ServicePortNotFound",
    "ServerEnded",
    "ServerReplaced",
    "ServerDeleted",
    "OutOfMemory",
    "Evicted",
    "Preempted",
    "PodRefused",
    "NodeLost",
    "LoadNotStarted",
    "LoadPodLost",
    "LoadGeneratorDied",
    "InputRefused",
    "TaskRefused",
    "InputsNotFetched",
    "RequestRefused",
    "ProtocolMismatch",
    "AccessDenied",
    "Redirected",
    "TlsRefused",
    "WorkersNotReady",
    "WorkerLost",
    "NoAnswer",
    "ServerLost",
    "InvalidPlan",
    "InternalError",
    "LoadGeneratorFailed",
    "OperatorFailed",
    "Stored",
    "StoreUnreachable",
    "StoreRefused",
]
"""One CamelCase word of a condition."""

Place = tuple[ConditionType, Literal["True", "False", "Unknown"]]

SERVER_WAITS: Place = ("ServerReady", "False")
LOAD_WAITS: Place = ("Measuring", "False")
FAILED: Place = ("Failed", "True")
REFUSED: tuple[Place, ...] = (("Accepted", "False"), FAILED)
EITHER: tuple[Place, ...] = (SERVER_WAITS, LOAD_WAITS, FAILED)
SERVER: tuple[Place, ...] = (SERVER_WAITS, FAILED)
WAITS_FOR_NODE: tuple[Place, ...] = (SERVER_WAITS, LOAD_WAITS)
REFUSED_CHILD: tuple[Place, ...] = (*EITHER, ("Measuring", "Unknown"))
"""Measuring is Unknown if the API server rejects the Job itself."""
COMPLETE: tuple[Place, ...] = (("Complete", "True"),)
LOST: tuple[Place, ...] = (*COMPLETE, ("Finished", "False"))
"""Finished is False with this reason until a failed run is cleaned up."""


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason of a condition."""

    meaning: str
    """What happened, in one or two sentences."""
    places: tuple[Place, ...]
    """The conditions that can have this reason, with their status."""
    remedy: str = ""
    """What to do, as a sentence; empty if nothing needs to be done."""
    is_transient: bool = False
    """Whether the run waits for the fault to pass, until `server.readyDeadlineSeconds` are over."""


_OF_STATES: dict[ReasonName, Reason] = {
    "Accepted": Reason(
        "The spec is valid, and the run proceeds.",
        (("Accepted", "True"),),
    ),
    "Queued": Reason(
        "The run waits in the queue. The message gives its position.",
        (("Accepted", "True"),),
        "Wait, or raise the operator's maxConcurrentRuns.",
    ),
    "WaitingForNodes": Reason(
        "The scheduler found no nodes for the run's pods within 30 s. The operator deleted them, "
        "and the next run has its turn. The run is tried again after a pause, which grows from "
        "30 s to 5 min, or when another run ends. It waits as long as it takes: "
        "spec.activeDeadlineSeconds counts anew from each attempt.",
        (("Accepted", "True"),),
        "Wait for other runs to leave their nodes, free capacity or add nodes. If no node can ever "
        "take the pods, delete the run and correct spec.server.",
    ),
    "AdmissionPending": Reason(
        "The run has the label kueue.x-k8s.io/queue-name, and Kueue has not admitted it yet. The "
        "message quotes Kueue.",
        (("Accepted", "True"),),
        "Wait, or raise the quota of the ClusterQueue.",
    ),
    "Inadmissible": Reason(
        "Kueue cannot admit the run as things are: its LocalQueue or ClusterQueue does not exist "
        "or is stopped, or its Workload is deactivated. The run waits.",
        (("Accepted", "True"),),
        "Create or start the queue that the message names. To use another one, create a new run "
        "with its name in the label kueue.x-k8s.io/queue-name.",
    ),
    "Admitted": Reason(
        "The spec is valid, Kueue has admitted the run, and the run proceeds.",
        (("Accepted", "True"),),
    ),
    "Suspended": Reason(
        "spec.suspend is true. It holds a run that has not started to measure, and fails a "
        "run that has.",
        (("Accepted", "True"), FAILED),
        "Set spec.suspend to false to release a held run. Create a new run if it had started "
        "to measure.",
    ),
    "Cancelled": Reason(
        "spec.cancel is true. Measurements up to that point are kept.",
        (("Accepted", "True"), FAILED),
        "Create a new run to measure again.",
    ),
    "DeadlineExceeded": Reason(
        "The run did not finish within spec.activeDeadlineSeconds.",
        (FAILED,),
        "Raise spec.activeDeadlineSeconds, or shorten the scenarios.",
    ),
    "InvalidSpec": Reason(
        "The spec is not a valid BenchmarkRun. The message lists every problem.",
        REFUSED,
        "Correct the file and create a new run.",
    ),
    "NotAvailable": Reason(
        "The spec uses a feature that this version does not support in a cluster.",
        REFUSED,
        "Correct what the message names and create a new run.",
    ),
    "NotAllowed": Reason(
        "The spec names an object or an address that runs may not use here.",
        (*REFUSED, SERVER_WAITS),
        "Add the label or the operator setting that the message names, or use another "
        "object, and create a new run.",
    ),
    "NotFound": Reason(
        "The spec names an object that does not exist in the run's namespace.",
        REFUSED,
        "Create the object, then create a new run.",
    ),
    "CeilingExceeded": Reason(
        "The spec is beyond a ceiling that the operator's admin has set for every run.",
        REFUSED,
        "Lower the field and create a new run, or have the ceiling raised.",
    ),
    "ServerStarting": Reason(
        "The server's pods are being created, scheduled and started.",
        (SERVER_WAITS,),
    ),
    "Ready": Reason(
        "Every server pod is ready.",
        (("ServerReady", "True"),),
    ),
    "External": Reason(
        "The run measures an existing server. The load generator waits until that server is ready.",
        (("ServerReady", "Unknown"),),
    ),
    "CleanedUp": Reason(
        "The run is over and its server was deleted, as spec.retention.cleanup requires.",
        (SERVER_WAITS,),
    ),
    "LoadStarting": Reason(
        "The load generator's pod is being created and started.",
        (LOAD_WAITS,),
    ),
    "Preparing": Reason(
        "The load generator waits for the server and prepares its requests.",
        (LOAD_WAITS,),
    ),
    "Measuring": Reason(
        "The scenarios are being measured. The message names the current one.",
        (("Measuring", "True"),),
    ),
    "Stopping": Reason(
        "The operator has requested the load generator to stop and hand over its measurements.",
        (("Measuring", "True"),),
    ),
    "Ended": Reason(
        "The load generator has finished.",
        (LOAD_WAITS,),
    ),
    "Measured": Reason(
        "Every scenario was measured, and the result is stored.",
        COMPLETE,
    ),
    "Stored": Reason(
        "The results service keeps the result, and its ConfigMaps are deleted. The message gives "
        "its permanent address.",
        (("Stored", "True"),),
    ),
    "StoreUnreachable": Reason(
        "The results service does not answer, or cannot keep anything now. ConfigMaps keep the "
        "result meanwhile, and the run is not deleted before it is stored, at most 30 days after "
        "its TTL. The operator retries after 5 s, and then ever more seldom, at least every "
        "10 min.",
        (("Stored", "False"),),
        "Check the pods of the results service, and the operator's value results.url.",
    ),
    "StoreRefused": Reason(
        "The results service refuses the result. The message quotes it. ConfigMaps keep the result "
        "meanwhile, and the run is not deleted before it is stored, at most 30 days after its TTL. "
        "The operator retries, at least every 10 min.",
        (("Stored", "False"),),
        "Name the operator's account in the value operators of the chart inferometer-results, or "
        "correct what the message says.",
    ),
    "ResultPending": Reason(
        "The load generator has ended, but its result cannot be read or kept yet, or is being "
        "exported. The operator retries as long as the load pod exists, until an hour after the "
        "run's deadline. The run no longer counts towards maxConcurrentRuns.",
        (("Finished", "False"),),
        "Repair what the message names, or delete the run to give its result up.",
    ),
    "ResultIncomplete": Reason(
        "Part of the result document was lost in transfer. The status keeps the summary.",
        LOST,
        "Measure again if you need the whole document.",
    ),
    "ResultTooLarge": Reason(
        "The result document is too large to transfer. The status keeps the summary.",
        LOST,
        "Put fewer or shorter scenarios in one run.",
    ),
    "ResultLost": Reason(
        "The load generator's log could not be read before its pod was gone, or before an hour "
        "had passed since the run's deadline. The status keeps the summary.",
        LOST,
        "Measure again if you need the whole document.",
    ),
    "ResultNotKept": Reason(
        "The API server rejected the ConfigMaps with the result until an hour had passed since "
        "the run's deadline. The status keeps the summary.",
        LOST,
        "Make room in the namespace's quota for ConfigMaps, or delete the object that "
        "already has the name.",
    ),
    "ExportFailed": Reason(
        "The result could not be exported to spec.retention.export. It is kept in ConfigMaps as "
        "without an export.",
        LOST,
        "Download the result with `inferometer result`. Correct what the message names for the "
        "next run.",
    ),
    "AllValid": Reason(
        "Every scenario is VALID.",
        (("Valid", "True"),),
    ),
    "Invalid": Reason(
        "At least one scenario is INVALID. The message gives its name and the reasons.",
        (("Valid", "False"),),
        "See docs/reference/verdict.md.",
    ),
    "NotComplete": Reason(
        "The run did not complete, so there is no verdict for the whole run.",
        (("Valid", "False"),),
    ),
    "StatusRefused": Reason(
        "The API server refuses the whole status of the run. The run continues and keeps its "
        "result. The status shows a minimum and is written again from time to time.",
        (("Accepted", "True"), *COMPLETE, FAILED, ("Finished", "True")),
        "Correct what the message names: an older CustomResourceDefinition, or a policy.",
    ),
    "Complete": Reason(
        "The run is over and complete.",
        (("Finished", "True"),),
    ),
    "Failed": Reason(
        "The run is over and failed.",
        (("Finished", "True"),),
    ),
}
_OF_FAULTS: dict[ReasonName, Reason] = {
    "ImageNotPulled": Reason(
        "The image of a pod cannot be pulled.",
        EITHER,
        "Correct the operator's image settings, pull secrets or pull policy, or load the "
        "image into the node.",
        is_transient=True,
    ),
    "ImageNotRemoved": Reason(
        "The images of a server that is to start cold are still on its node.",
        SERVER,
        "End the pods that use them, or see the chart inferometer-agent "
        "(coldStart.allowImageRemoval, operators).",
        is_transient=True,
    ),
    "ImageNameInvalid": Reason(
        "The image name of a pod is not valid.",
        EITHER,
        "Correct the operator's image settings.",
    ),
    "Unschedulable": Reason(
        "No node can take a pod now. The message quotes the scheduler. After 30 s the run goes "
        "back to the queue with the reason WaitingForNodes.",
        WAITS_FOR_NODE,
        "Wait for other runs to leave their nodes, free capacity, or correct "
        "spec.server.resources or spec.server.placement in a new run.",
        is_transient=True,
    ),
    "GpuUnavailable": Reason(
        "No node has a free GPU of the requested resource now. After 30 s the run goes back to the "
        "queue with the reason WaitingForNodes.",
        (SERVER_WAITS,),
        "Wait until a GPU is free. If no node offers the resource (see kubectl describe nodes), "
        "set another spec.server.gpu.resource, or device CPU, in a new run.",
        is_transient=True,
    ),
    "VolumeNotBound": Reason(
        "A PersistentVolumeClaim that a pod needs is missing or not bound.",
        EITHER,
        "Create the claim, or find out with kubectl describe pvc why it is not bound.",
        is_transient=True,
    ),
    "QuotaExceeded": Reason(
        "A ResourceQuota of the namespace rejects a pod or another object of the run.",
        REFUSED_CHILD,
        "Request less, delete unused objects, or have the quota raised.",
        is_transient=True,
    ),
    "LimitRangeRefused": Reason(
        "A LimitRange of the namespace rejects a pod.",
        EITHER,
        "Set resources within its bounds (see kubectl describe limitrange).",
        is_transient=True,
    ),
    "AdmissionRefused": Reason(
        "An admission controller rejects an object: Pod Security, a policy or a webhook.",
        REFUSED_CHILD,
        "Allow Inferometer's pods in the policy, or use another namespace.",
        is_transient=True,
    ),
    "CreationRefused": Reason(
        "The API server rejects an object of the run.",
        REFUSED_CHILD,
        "See the message. If rights are missing, upgrade or repair the operator's chart.",
        is_transient=True,
    ),
    "NameClash": Reason(
        "Another object already has a name that the run needs. The operator neither uses nor "
        "deletes it. If a deleted run of the same name left it behind, the operator waits "
        "for it to go.",
        REFUSED_CHILD,
        "Create the run under another name, or delete that object.",
    ),
    "ContainerNotStarted": Reason(
        "A container cannot be created, or its volumes cannot be mounted.",
        EITHER,
        "See the message and kubectl describe pod.",
        is_transient=True,
    ),
    "ModelNotFetched": Reason(
        "The model, its manifest or the input file could not be fetched, although the fetch was "
        "retried.",
        SERVER,
        "Check the address, and that the cluster can reach the store, and create a new run.",
    ),
    "ModelRefused": Reason(
        "The model or the input file is missing, cannot be served, or has another checksum.",
        SERVER,
        "Correct what the message names and create a new run.",
    ),
    "ServerCrashed": Reason(
        "The server exited before it was ready. It is not restarted.",
        SERVER,
        "See its last lines in the message, and create a new run.",
    ),
    "ServerRefused": Reason(
        "The server cannot serve the model, the input shapes or the device of the spec.",
        SERVER,
        "Correct spec.model or spec.server and create a new run.",
    ),
    "ServerNotReady": Reason(
        "The server was not ready within spec.server.readyDeadlineSeconds.",
        SERVER,
        "Raise spec.server.readyDeadlineSeconds, or give the server more CPU.",
    ),
    "KServeNotFound": Reason(
        "The cluster does not serve KServe's InferenceServices, or the operator may not see them.",
        REFUSED,
        "Install KServe, or use another runtime, and create a new run.",
    ),
    "KServeFailed": Reason(
        "KServe reports that it cannot deploy the run's InferenceService; the message quotes it. "
        "The run waits for it.",
        SERVER,
        "See the InferenceService (kubectl describe) and the log of KServe's controller.",
        is_transient=True,
    ),
    "ServiceNotFound": Reason(
        "The Service of the External server does not exist. The run waits for it.",
        SERVER,
        "Create the Service in the run's namespace, or correct spec.server.external.",
        is_transient=True,
    ),
    "ServicePortNotFound": Reason(
        "The Service of the External server does not have the port of the spec.",
        (*REFUSED, SERVER_WAITS),
        "Correct spec.server.external.service.port, or add the port to the Service, and create a "
        "new run.",
    ),
    "ServerEnded": Reason(
        "A server exited during the measurement. Measurements up to that point are kept.",
        SERVER,
        "See its last lines in the message, and create a new run.",
    ),
    "ServerReplaced": Reason(
        "A server pod was deleted. Measurements up to that point are kept.",
        SERVER,
        "Find out what deletes the pods, and create a new run.",
    ),
    "ServerDeleted": Reason(
        "A user or another controller deleted the server's Job.",
        SERVER,
        "Create a new run. To end a run, set spec.cancel.",
    ),
    "OutOfMemory": Reason(
        "A container exceeded its memory limit and was killed.",
        EITHER,
        "Raise spec.server.resources.memory, or the operator setting load.resources.memory "
        "for the load generator, and create a new run.",
    ),
    "Evicted": Reason(
        "The cluster evicted or preempted a pod.",
        EITHER,
        "Create a new run on a node with free capacity. A priority class in the chart's "
        "values protects pods from preemption.",
    ),
    "Preempted": Reason(
        "Kueue has evicted the run that it had admitted: for a run of a higher priority, because "
        "its queue was stopped, or because its Workload was deactivated or deleted. Measurements "
        "up to that point are kept.",
        (FAILED,),
        "Create a new run to measure again. A higher WorkloadPriorityClass protects it.",
    ),
    "PodRefused": Reason(
        "The node rejected a pod that was scheduled there.",
        EITHER,
        "See the message, and create a new run.",
    ),
    "NodeLost": Reason(
        "The node of a pod does not respond. The run fails 60 s after the cluster notices.",
        EITHER,
        "Repair the node, and create a new run.",
        is_transient=True,
    ),
    "LoadNotStarted": Reason(
        "The load generator did not start in time.",
        (FAILED,),
        "See the events of its pod, and create a new run.",
    ),
    "LoadPodLost": Reason(
        "A user or another controller deleted or stopped the load generator's pod or Job. It "
        "is not restarted, so that no scenario is measured twice unnoticed.",
        (LOAD_WAITS, FAILED),
        "Create a new run. To end a run, set spec.cancel.",
    ),
    "LoadGeneratorDied": Reason(
        "The load generator crashed without reporting an outcome.",
        (FAILED,),
        "See its last lines in the message, and please report it.",
    ),
    "InputRefused": Reason(
        "The requests cannot be built: inputs, shapes, data types or batch sizes do not fit "
        "the model.",
        (LOAD_WAITS, FAILED),
        "Correct spec.load.inputs or the scenario's batch sizes, and create a new run.",
    ),
    "TaskRefused": Reason(
        "The model's manifest, the data set and the measures do not fit each other or the model, "
        "or nothing here satisfies the manifest.",
        (*REFUSED, SERVER_WAITS),
        "Correct what the message names, and create a new run.",
    ),
    "InputsNotFetched": Reason(
        "The input file, a trace, a data set or the manifest could not be fetched.",
        (LOAD_WAITS, FAILED),
        "Check the address that the message names, and create a new run.",
    ),
    "RequestRefused": Reason(
        "The server rejects the requests.",
        (FAILED,),
        "Correct the spec as the server's answer in the message says.",
    ),
    "ProtocolMismatch": Reason(
        "The port of the External server does not speak the Open Inference Protocol, or not the "
        "kind of it that spec.load.protocol and the url name.",
        (FAILED,),
        "Set the address and port of an inference server in spec.server.external, and create a new "
        "run.",
    ),
    "AccessDenied": Reason(
        "The server rejects the credentials of the requests, or their absence.",
        (FAILED,),
        "Set headers with valid credentials in spec.load.headersSecret, and create a new run.",
    ),
    "Redirected": Reason(
        "The server redirects requests. Redirects are never followed.",
        (FAILED,),
        "Set the address of the server itself in spec.server.external, and create a new run.",
    ),
    "TlsRefused": Reason(
        "The TLS handshake with the server failed: one side does not trust the other's "
        "certificate.",
        (FAILED,),
        "Correct spec.load.tls or the Secrets that it names, and create a new run.",
    ),
    "WorkersNotReady": Reason(
        "Some workers of a fleet did not reach its master in time. Nothing was measured.",
        (FAILED,),
        "Find out with kubectl describe pod why their pods do not start, or lower "
        "spec.load.workers.",
    ),
    "WorkerLost": Reason(
        "A worker of a fleet was lost. Measurements up to that point are kept as INVALID.",
        (FAILED,),
        "Find out with kubectl describe pod and kubectl get events why its pod ended, and "
        "create a new run.",
    ),
    "NoAnswer": Reason(
        "The server does not respond.",
        (FAILED,),
        "See the server's log.",
    ),
    "ServerLost": Reason(
        "The connections to the server were lost. Measurements up to that point are kept.",
        (FAILED,),
        "See the server's log, and check its node with kubectl get nodes.",
    ),
    "InvalidPlan": Reason(
        "The load generator does not understand its plan.",
        (FAILED,),
        "Use images of the same version for the operator and the load generator.",
    ),
    "InternalError": Reason(
        "Internal error in the load generator or, in a local run, in any part.",
        (FAILED,),
        "Please report it, with the message.",
    ),
    "LoadGeneratorFailed": Reason(
        "The load generator failed for a reason that this operator does not know.",
        (FAILED,),
        "Use images of the same version for the operator and the load generator.",
    ),
    "OperatorFailed": Reason(
        "Internal error in the operator, which failed repeatedly to process this run.",
        (FAILED,),
        "Please report it, with the message and the operator's log lines about this run.",
    ),
}

REASONS: dict[ReasonName, Reason] = {**_OF_STATES, **_OF_FAULTS}
"""Every reason, in the order of the documentation."""
