"""Analyses of profiles and graphs: layers, kernels, bounds, advice. Pure functions only."""
