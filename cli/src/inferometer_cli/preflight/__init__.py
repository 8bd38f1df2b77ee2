"""Checks of a cluster before a run. They are pure; only `survey` sends requests to the cluster."""
