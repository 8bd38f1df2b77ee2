"""The Prometheus metrics that Inferometer exposes, and their text format."""
