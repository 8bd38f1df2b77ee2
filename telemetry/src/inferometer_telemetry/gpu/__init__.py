"""The GPUs of a node: what NVML reports of them, and whose their energy is."""
