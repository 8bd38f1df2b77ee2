"""Layers of models: what ONNX Runtime makes of a model, and how long its layers take alone."""
