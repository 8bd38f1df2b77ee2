"""What goes wrong with what a run consists of?"""

from inferometer_api.reason import (
    EITHER,
    FAILED,
    LOAD_WAITS,
    REFUSED_CHILD,
    SERVER,
    Reason,
    ReasonName,
)

OF_FAULTS: dict[ReasonName, Reason] = {
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
"""In the order of the documentation."""
