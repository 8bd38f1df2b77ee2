"""Decisions about a run: pure functions of the observed state."""
