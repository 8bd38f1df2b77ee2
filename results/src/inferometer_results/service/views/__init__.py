"""Prepares the data that pages and API show."""
