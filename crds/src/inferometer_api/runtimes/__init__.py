"""Inference servers that a run can use, one description per runtime."""
