"""Decisions for NodeBenchmarks. Pure."""
