"""The routes of the REST API."""
