"""Manifests: documents that describe a model or a data set."""
