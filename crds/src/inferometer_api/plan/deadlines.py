"""Deadlines of the operator, in addition to those of a spec.

The spec has server.readyDeadlineSeconds and activeDeadlineSeconds.
"""

NODE_LOST_SECONDS = 60
"""For a node to respond again after the cluster marked its pods as not ready."""
STOP_SECONDS = 30
"""For a load generator to stop and hand over its measurements."""
GONE_SECONDS = 60
"""For a deleted pod to disappear; the pods of a lost node never do."""
FORCED_SECONDS = 300
"""From the end of a run for all other deleted objects to disappear."""
NAMESAKE_SECONDS = 60
"""For the objects of a deleted run of the same name to disappear, once they conflict."""
RESULT_STORED_SECONDS = 60
"""For the API server to store the ConfigMaps of a result."""
APPEARS_SECONDS = 5
"""For an object that a run names to appear after the run was created."""
SERVER_FAULT_SECONDS = 5
"""For the cluster to report a server fault that the load generator has noticed."""
