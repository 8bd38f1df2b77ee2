"""Serves a store of results: a read-only REST API and the pages of the explorer."""
