"""Workers, reads and writes of NodeBenchmarks."""
