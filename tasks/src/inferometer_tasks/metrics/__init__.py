"""Measures of accuracy: each takes one prediction at a time, and has bounds if they are known."""
