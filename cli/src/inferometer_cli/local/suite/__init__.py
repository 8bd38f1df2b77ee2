"""Suites on this machine."""
