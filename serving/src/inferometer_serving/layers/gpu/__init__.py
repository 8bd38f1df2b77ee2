"""Timings of layers and whole models on an NVIDIA GPU."""
