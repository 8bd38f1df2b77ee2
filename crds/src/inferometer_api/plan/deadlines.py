"""Deadlines of the operator, in addition to those of a spec.

The spec has server.readyDeadlineSeconds and activeDeadlineSeconds.
"""

NODE_LOST_SECONDS = 60
"""For a node to respond again after the cluster marked its pods as not ready."""
JOB_MARGIN_SECONDS = 600
"""How much longer than activeDeadlineSeconds the Jobs of a run may live: the operator ends them
first, and without an operator Kubernetes does."""
UNSCHEDULED_SECONDS = 30
"""For the scheduler to find a node for each pod, before the run goes back to the queue."""
NODE_RETRY_SECONDS, LONGEST_NODE_RETRY_SECONDS = 30, 300
"""The first pause of a run that found no nodes; it doubles with each attempt. And the longest."""
STOP_SECONDS = 30
"""For a load generator to stop and hand over its measurements."""
GONE_SECONDS = 60
"""For a deleted pod to disappear; the pods of a lost node never do."""
FORCED_SECONDS = 300
"""From the end of a run for all other deleted objects to disappear."""
NAMESAKE_SECONDS = 60
"""For the objects of a deleted run of the same name to disappear, once they conflict."""
RESULT_SECONDS = 3600
"""From the run's deadline for its result to be read and kept, as long as its load pod exists."""
UNSTORED_SECONDS = 30 * 24 * 3600
"""For a result to be stored after the TTL of its run is over, as long as a results service is
configured."""
SERVER_KEPT_SECONDS = 60
"""For a result to be read and kept before the server is deleted without it."""
APPEARS_SECONDS = 5
"""For an object that a run names to appear after the run was created."""
SERVER_FAULT_SECONDS = 5
"""For the cluster to report a server fault that the load generator has noticed."""
