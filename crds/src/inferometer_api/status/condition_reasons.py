"""What is known of a reason that a condition gives?"""

from dataclasses import dataclass
from typing import Literal

from inferometer_api.status.run_status import ConditionType

ReasonName = Literal[
    "Accepted",
    "Queued",
    "Suspended",
    "Cancelled",
    "DeadlineExceeded",
    "InvalidSpec",
    "NotAvailable",
    "NotAllowed",
    "NotFound",
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
    "ResultIncomplete",
    "ResultTooLarge",
    "ResultLost",
    "ResultNotKept",
    "AllValid",
    "Invalid",
    "NotComplete",
    "Complete",
    "Failed",
    "ImageNotPulled",
    "ImageNameInvalid",
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
    "CrashLoop",
    "ServerRefused",
    "ServerNotReady",
    "ServiceNotFound",
    "ServerEnded",
    "ServerReplaced",
    "ServerDeleted",
    "OutOfMemory",
    "Evicted",
    "PodRefused",
    "NodeLost",
    "LoadNotStarted",
    "LoadPodLost",
    "LoadGeneratorDied",
    "InputRefused",
    "InputsNotFetched",
    "RequestRefused",
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
]
"""One CamelCase word of a condition."""

Place = tuple[ConditionType, Literal["True", "False", "Unknown"]]

SERVER_WAITS: Place = ("ServerReady", "False")
LOAD_WAITS: Place = ("Measuring", "False")
FAILED: Place = ("Failed", "True")
REFUSED: tuple[Place, ...] = (("Accepted", "False"), FAILED)
EITHER: tuple[Place, ...] = (SERVER_WAITS, LOAD_WAITS, FAILED)
SERVER: tuple[Place, ...] = (SERVER_WAITS, FAILED)
REFUSED_CHILD: tuple[Place, ...] = (*EITHER, ("Measuring", "Unknown"))
"""Unknown: the Job itself is refused, and was never there."""
COMPLETE: tuple[Place, ...] = (("Complete", "True"),)


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a condition is as it is."""

    meaning: str
    """What was found: a sentence."""
    places: tuple[Place, ...]
    """The conditions that give it, with their status."""
    remedy: str = ""
    """What to do: a sentence; empty where there is nothing to do."""
    heals: bool = False
    """Whether the run waits for it to heal, until `server.readyDeadlineSeconds` are over."""


_OF_STATES: dict[ReasonName, Reason] = {
    "Accepted": Reason("The spec is valid and the run goes on.", (("Accepted", "True"),)),
    "Queued": Reason(
        "The run waits for its turn; the message says its position.",
        (("Accepted", "True"),),
        "Wait, or raise the operator's maxConcurrentRuns.",
    ),
    "Suspended": Reason(
        "spec.suspend is true. Before the measurement it holds the run; later it ends it as "
        "Failed.",
        (("Accepted", "True"), FAILED),
        "Set spec.suspend to false to let a run go on that was held; create a new run where it "
        "had begun to measure.",
    ),
    "Cancelled": Reason(
        "spec.cancel is true; what was measured until then is kept.",
        (("Accepted", "True"), FAILED),
        "Create a new run to measure again.",
    ),
    "DeadlineExceeded": Reason(
        "The run was not done within spec.activeDeadlineSeconds.",
        (FAILED,),
        "Raise spec.activeDeadlineSeconds, or ask for shorter scenarios.",
    ),
    "InvalidSpec": Reason(
        "The spec is no valid BenchmarkRun; the message says every problem.",
        REFUSED,
        "Correct the file and create a new run.",
    ),
    "NotAvailable": Reason(
        "The spec asks for something that this version cannot do in a cluster.",
        REFUSED,
        "Correct what the message names and create a new run.",
    ),
    "NotAllowed": Reason(
        "The spec names something that runs may not use here.",
        (*REFUSED, SERVER_WAITS),
        "Settle what the message names (a label, a setting of the operator's), or name something "
        "else, and create a new run.",
    ),
    "NotFound": Reason(
        "The spec names an object that does not exist in the run's namespace.",
        REFUSED,
        "Create it, then create a new run.",
    ),
    "ServerStarting": Reason("The server's pods are made, scheduled and started.", (SERVER_WAITS,)),
    "Ready": Reason("Every server pod is ready.", (("ServerReady", "True"),)),
    "External": Reason(
        "Something that already serves is measured; the load generator waits until it is ready.",
        (("ServerReady", "Unknown"),),
    ),
    "CleanedUp": Reason(
        "The run has ended and its server was deleted (spec.retention.cleanup).",
        (SERVER_WAITS,),
    ),
    "LoadStarting": Reason("The load generator's pod is made and started.", (LOAD_WAITS,)),
    "Preparing": Reason(
        "The load generator waits for the server and prepares its requests.", (LOAD_WAITS,)
    ),
    "Measuring": Reason(
        "Scenarios are measured; the message names the current one.", (("Measuring", "True"),)
    ),
    "Stopping": Reason(
        "The load generator was asked to end and to hand over what it measured.",
        (("Measuring", "True"),),
    ),
    "Ended": Reason("The load generator has ended.", (LOAD_WAITS,)),
    "Measured": Reason("Every scenario was measured and the result is kept.", COMPLETE),
    "ResultIncomplete": Reason(
        "Every scenario was measured, but the result document did not come over whole; the "
        "summary in the status counts.",
        COMPLETE,
        "Measure again where the whole document is needed.",
    ),
    "ResultTooLarge": Reason(
        "Every scenario was measured, but the result document is too large to be handed over; the "
        "summary in the status counts.",
        COMPLETE,
        "Ask for fewer or shorter scenarios in one run.",
    ),
    "ResultLost": Reason(
        "Every scenario was measured, but the load generator's log could not be read; the "
        "summary in the status counts.",
        COMPLETE,
        "Measure again where the whole document is needed.",
    ),
    "ResultNotKept": Reason(
        "Every scenario was measured, but the API server took no ConfigMap with the result; the "
        "summary in the status counts.",
        COMPLETE,
        "Make room in the namespace's quota for ConfigMaps, or delete the object that has the "
        "name.",
    ),
    "AllValid": Reason("Every scenario is VALID.", (("Valid", "True"),)),
    "Invalid": Reason(
        "At least one scenario is INVALID; the message says which and why.",
        (("Valid", "False"),),
        "See docs/reference/verdict.md.",
    ),
    "NotComplete": Reason(
        "The run did not complete, so that nothing is judged as a whole.", (("Valid", "False"),)
    ),
    "Complete": Reason("The run is over: it is complete.", (("Finished", "True"),)),
    "Failed": Reason("The run is over: it failed.", (("Finished", "True"),)),
}


_OF_FAULTS: dict[ReasonName, Reason] = {
    "ImageNotPulled": Reason(
        "The image of a pod cannot be pulled.",
        EITHER,
        "Correct the operator's image settings, its pull secrets or its pull policy, or load the "
        "image into the node.",
        heals=True,
    ),
    "ImageNameInvalid": Reason(
        "The image of a pod has a name that no registry understands.",
        EITHER,
        "Correct the operator's image settings.",
    ),
    "Unschedulable": Reason(
        "No node takes a pod; the message has the scheduler's words.",
        EITHER,
        "Ask for less in spec.server.resources, correct spec.server.placement, or make room.",
        heals=True,
    ),
    "GpuUnavailable": Reason(
        "No node has the GPU that was asked for.",
        SERVER,
        "Ask for a resource that nodes offer in spec.server.gpu.resource (kubectl describe nodes "
        "shows them), wait until a GPU is free, or ask for device CPU.",
        heals=True,
    ),
    "VolumeNotBound": Reason(
        "A claim that a pod needs is missing or bound to no volume.",
        EITHER,
        "Create the claim, or see with kubectl describe pvc why it is not bound.",
        heals=True,
    ),
    "QuotaExceeded": Reason(
        "A ResourceQuota of the namespace refuses a pod or another object of the run.",
        REFUSED_CHILD,
        "Ask for less, delete what is not needed, or have the quota raised.",
        heals=True,
    ),
    "LimitRangeRefused": Reason(
        "A LimitRange of the namespace refuses a pod.",
        EITHER,
        "Ask for resources within its bounds (kubectl describe limitrange).",
        heals=True,
    ),
    "AdmissionRefused": Reason(
        "An admission controller refuses an object: Pod Security, a policy or a webhook.",
        REFUSED_CHILD,
        "Have the policy let pods of Inferometer pass, or run in another namespace.",
        heals=True,
    ),
    "CreationRefused": Reason(
        "The API server refuses an object of the run.",
        REFUSED_CHILD,
        "See the message; where rights are missing, upgrade or repair the operator's chart.",
        heals=True,
    ),
    "NameClash": Reason(
        "An object that belongs to someone else has the name that the run needs. It is neither "
        "used nor deleted; one that is about to go, with a deleted run of the same name, is waited "
        "for.",
        REFUSED_CHILD,
        "Create the run under another name, or delete that object yourself.",
    ),
    "ContainerNotStarted": Reason(
        "A container cannot be created or its volumes cannot be mounted.",
        EITHER,
        "See the message; kubectl describe pod tells more.",
        heals=True,
    ),
    "ModelNotFetched": Reason(
        "The model, or the file of inputs, could not be fetched; it is tried again.",
        SERVER,
        "Check the address, and that the store can be reached from the cluster.",
        heals=True,
    ),
    "ModelRefused": Reason(
        "The model (or the file of inputs, whose shapes the server is warmed up with) is missing, "
        "is none that can be served, or has another checksum.",
        SERVER,
        "Correct what the message names and create a new run.",
    ),
    "ServerCrashed": Reason(
        "The server ended before it was ready; it is started once more.",
        SERVER,
        "See its last lines in the message.",
        heals=True,
    ),
    "CrashLoop": Reason(
        "A container ends again and again before it is ready.",
        SERVER,
        "See its last lines in the message.",
    ),
    "ServerRefused": Reason(
        "The server cannot serve what was asked: the model, a shape, the device.",
        SERVER,
        "Correct spec.model or spec.server and create a new run.",
    ),
    "ServerNotReady": Reason(
        "The server was not ready within spec.server.readyDeadlineSeconds.",
        SERVER,
        "Raise spec.server.readyDeadlineSeconds, or give the server more CPU.",
    ),
    "ServiceNotFound": Reason(
        "The Service of the External server does not exist; the run waits for it.",
        SERVER,
        "Create the Service in the run's namespace, or correct spec.server.external.",
        heals=True,
    ),
    "ServerEnded": Reason(
        "A server ended or restarted during the measurement; what was measured until then is kept.",
        SERVER,
        "See its last lines in the message, and create a new run.",
    ),
    "ServerReplaced": Reason(
        "A server pod that the plan names was deleted or replaced; what was measured until then "
        "is kept.",
        SERVER,
        "Create a new run, and keep whatever deletes pods away from it.",
    ),
    "ServerDeleted": Reason(
        "The server's Deployment was deleted by someone else.",
        SERVER,
        "Create a new run; use spec.cancel to end one.",
    ),
    "OutOfMemory": Reason(
        "A container was killed since it used more memory than its limit.",
        EITHER,
        "Raise spec.server.resources.memory (for the load generator the operator's setting "
        "load.resources.memory) and create a new run.",
    ),
    "Evicted": Reason(
        "A pod was evicted or preempted by the cluster.",
        EITHER,
        "Create a new run, on a node with room; a priority class in the chart's values protects "
        "pods from preemption.",
    ),
    "PodRefused": Reason(
        "The node refused a pod after it was scheduled there.",
        EITHER,
        "See the message, and create a new run.",
    ),
    "NodeLost": Reason(
        "The node of a pod does not answer any more. The run is Failed 60 s after the cluster "
        "has noticed.",
        EITHER,
        "Repair the node, and create a new run.",
        heals=True,
    ),
    "LoadNotStarted": Reason(
        "The load generator did not start in time.",
        (FAILED,),
        "See the events of its pod, and create a new run.",
    ),
    "LoadPodLost": Reason(
        "The load generator's pod or Job was deleted or stopped by someone else. It is never "
        "started again: nothing is measured twice in silence.",
        (LOAD_WAITS, FAILED),
        "Create a new run; use spec.cancel to end one.",
    ),
    "LoadGeneratorDied": Reason(
        "The load generator ended by a fault and told no outcome.",
        (FAILED,),
        "See its last lines in the message, and please report it.",
    ),
    "InputRefused": Reason(
        "The requests that were asked for cannot be made: inputs, shapes, datatypes or batch "
        "sizes do not fit the model.",
        (LOAD_WAITS, FAILED),
        "Correct spec.load.inputs, or the scenario's batch sizes, and create a new run.",
    ),
    "InputsNotFetched": Reason(
        "The file of inputs could not be fetched.",
        (LOAD_WAITS, FAILED),
        "Check the address in spec.load.inputs.file.uri, and create a new run.",
    ),
    "RequestRefused": Reason(
        "The server refuses the requests.", (FAILED,), "Correct the spec by the server's words."
    ),
    "Redirected": Reason(
        "The server sends its askers elsewhere; redirects are never followed.",
        (FAILED,),
        "Name the address of the server itself in spec.server.external, and create a new run.",
    ),
    "TlsRefused": Reason(
        "TLS cannot be spoken with the server: its certificate or the client's is not trusted.",
        (FAILED,),
        "Correct spec.load.tls, or the Secrets that it names, and create a new run.",
    ),
    "WorkersNotReady": Reason(
        "Not all workers of a fleet found its master in time; nothing was measured.",
        (FAILED,),
        "See why their pods do not start (kubectl describe pod), or ask for fewer in "
        "spec.load.workers.",
    ),
    "WorkerLost": Reason(
        "A worker of a fleet was lost; what was measured until then is kept, as INVALID.",
        (FAILED,),
        "See why its pod ended (kubectl describe pod, kubectl get events), and create a new run.",
    ),
    "NoAnswer": Reason("The server does not answer.", (FAILED,), "See the server's log."),
    "ServerLost": Reason(
        "The connections to the server were lost; what was measured until then is kept.",
        (FAILED,),
        "See the server's log, and whether its node still answers (kubectl get nodes).",
    ),
    "InvalidPlan": Reason(
        "The load generator does not understand its plan.",
        (FAILED,),
        "Give operator and load generator images of the same version.",
    ),
    "InternalError": Reason(
        "The load generator ended by a fault of its own; in a local run, whatever part it was.",
        (FAILED,),
        "Please report it, with the message.",
    ),
    "LoadGeneratorFailed": Reason(
        "The load generator ended for a reason that this operator does not know.",
        (FAILED,),
        "Give operator and load generator images of the same version.",
    ),
    "OperatorFailed": Reason(
        "The operator failed at this run again and again, by a fault of its own.",
        (FAILED,),
        "Please report it, with the message and with what the operator's log says of the run; "
        "whoever runs the operator has that.",
    ),
}


REASONS: dict[ReasonName, Reason] = {**_OF_STATES, **_OF_FAULTS}
"""Every reason, in the order of the documentation."""
