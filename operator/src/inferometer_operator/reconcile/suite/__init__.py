"""Decisions for suites: which runs to create, which execution to start, and the status."""
