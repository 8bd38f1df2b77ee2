"""Computes from their agents' samples what the servers' nodes did within a window. Pure."""
