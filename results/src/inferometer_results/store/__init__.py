"""Keeps results: documents and what people add to them, with an index to find them by."""
