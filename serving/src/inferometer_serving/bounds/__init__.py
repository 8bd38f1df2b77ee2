"""Layers of a model as models of their own, and how long each engine takes for them."""
