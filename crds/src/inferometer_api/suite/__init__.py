"""Suites: a matrix of runs, its order, its schedule and its gate."""
