"""Manifests of a run's children, as plain JSON."""
