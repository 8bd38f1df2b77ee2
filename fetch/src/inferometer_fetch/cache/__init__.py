"""The model cache of a node: one verified copy of each model, mounted read-only into pods."""
