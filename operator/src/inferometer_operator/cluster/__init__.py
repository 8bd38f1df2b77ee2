"""Access to the cluster: the only package that knows the Kubernetes clients."""
