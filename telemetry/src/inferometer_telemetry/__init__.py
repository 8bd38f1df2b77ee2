"""The node agent: what a machine does while a model is measured on it."""
