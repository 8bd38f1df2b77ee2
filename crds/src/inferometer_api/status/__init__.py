"""The status of a BenchmarkRun: its fields, and the reasons of its conditions."""
