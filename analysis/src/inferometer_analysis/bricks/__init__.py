"""DLBricks: predicts the latency of models from the times of their unique layers.

Li, Dakkak, Xiong, Hwu: "DLBricks: Composable Benchmark Generation to Reduce Deep Learning
Benchmarking Effort on CPUs", ICPE 2020.
"""
