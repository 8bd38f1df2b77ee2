"""Comparison of two results: what differs, and which differences are significant. All pure."""
