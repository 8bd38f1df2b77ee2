"""How is the cluster read and written? The only place that knows the Kubernetes client."""
