"""Workers, queue and endpoints around the pure decisions."""
