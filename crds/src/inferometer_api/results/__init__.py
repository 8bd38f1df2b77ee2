"""The result document of a run, its transport and its summary."""
