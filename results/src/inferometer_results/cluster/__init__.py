"""Runs the service of results in a cluster, as an aggregated API: the edge to Kubernetes."""
