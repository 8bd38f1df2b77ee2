"""Requests joined into batches: when, with whom, and how they are split again."""
