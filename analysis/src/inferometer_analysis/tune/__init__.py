"""Search for the server settings with the highest rate within a latency bound."""
