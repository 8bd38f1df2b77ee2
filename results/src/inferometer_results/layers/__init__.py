"""Bounds, predictions and machines for models, from the layer database."""
