"""The GPUs of a node: what NVML tells of them, and whose their energy is."""
