"""NVIDIA GPUs through CUDA's driver."""
