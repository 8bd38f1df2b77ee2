"""The operator: runs BenchmarkRuns on a Kubernetes cluster."""
