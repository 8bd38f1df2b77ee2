"""The operator: it carries out BenchmarkRuns on a Kubernetes cluster."""
