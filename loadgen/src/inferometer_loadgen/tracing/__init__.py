"""Spans of traced queries: reading them, and joining those of client and servers. Pure."""
