"""Requests: their inputs, their encoding, and the checks of their replies."""
