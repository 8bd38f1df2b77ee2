"""Profiled sessions: where the engine spends the time of an inference."""
