"""Execution of a plan: scenario by scenario, step by step."""
