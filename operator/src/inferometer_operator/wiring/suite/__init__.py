"""Workers, reads and writes of suites."""
