"""External: a server that already runs, whatever program it is."""

from inferometer_api.runtimes.descriptor import RuntimeDescriptor

# It may be a server of ours, which reports these parameters.
EXTERNAL = RuntimeDescriptor(launch=None, restart_identity=("instance_id", "process_id"))
