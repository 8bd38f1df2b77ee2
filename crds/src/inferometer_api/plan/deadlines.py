"""How long does the operator wait for what may never come?

Beside what a spec asks for: server.readyDeadlineSeconds and activeDeadlineSeconds.
"""

NODE_LOST_SECONDS = 60
"""For a node to answer again, from when the cluster marked its pods as not ready."""
STOP_SECONDS = 30
"""For a load generator to end and to hand over, from when it was asked to."""
GONE_SECONDS = 60
"""For a pod to go that is being deleted: those of a lost node never do."""
FORCED_SECONDS = 300
"""For everything else that is to be deleted to go, from the run's end."""
NAMESAKE_SECONDS = 60
"""For what a deleted run of the same name has left to go, from when it first was in the way."""
KEPT_SECONDS = 60
"""For the API server to take the ConfigMaps of a result."""
APPEARS_SECONDS = 5
"""For an object that a run names to appear, from when the run was made."""
SERVER_TELLS_SECONDS = 5
"""For the cluster to tell of a server what its load generator has noticed."""
