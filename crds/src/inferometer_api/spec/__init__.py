"""The BenchmarkRun: its fields, how a run file is read, and what a valid run cannot have here."""
