"""Steps from a sample to a model's inputs, and from its outputs to a prediction. Pure functions."""
