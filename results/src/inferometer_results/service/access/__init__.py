"""Decides who may send which request."""
