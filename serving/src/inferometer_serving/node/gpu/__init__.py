"""Measures what a node's NVIDIA GPUs give: transfers, memory, launches and matrix products."""
