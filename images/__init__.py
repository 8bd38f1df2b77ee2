"""Builds, pushes and loads the container images, with the standard library alone."""
