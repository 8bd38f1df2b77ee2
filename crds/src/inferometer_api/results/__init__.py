"""What a run measures: the result document, its transport and its summary."""
