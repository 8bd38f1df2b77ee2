"""Shares weights in GPU memory: one process holds them, others open them without a copy."""
