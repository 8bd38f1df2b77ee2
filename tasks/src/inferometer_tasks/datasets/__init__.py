"""Data sets: folders, archives and lists of samples, read one sample at a time."""
