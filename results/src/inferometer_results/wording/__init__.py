"""Sentences about what a run found: searches, repeats, energy."""
