"""What is known of a reason that a condition gives?"""

from dataclasses import dataclass
from typing import Literal

from inferometer_api.status import ConditionType

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
