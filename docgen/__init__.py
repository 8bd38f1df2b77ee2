"""Generators of reference pages, schemas and CRDs, and the prose linter. Not part of the wheel."""
