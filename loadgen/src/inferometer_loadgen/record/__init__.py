"""Counters of a measurement, in memory that does not grow with its length. Pure."""
