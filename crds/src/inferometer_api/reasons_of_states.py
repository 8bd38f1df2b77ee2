"""Why does a run stand where it stands, or why was it not accepted?"""

from inferometer_api.reason import (
    COMPLETE,
    FAILED,
    LOAD_WAITS,
    REFUSED,
    SERVER_WAITS,
    Reason,
    ReasonName,
)

OF_STATES: dict[ReasonName, Reason] = {
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
"""In the order of the documentation."""
