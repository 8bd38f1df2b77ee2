"""Commands for runs in a cluster: the Kubernetes API, the state of a run, its result."""
