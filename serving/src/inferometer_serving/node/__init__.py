"""Measures what this node gives at best: memory, storage, clock and matrix products."""
