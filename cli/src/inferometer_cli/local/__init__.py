"""Runs on this machine: child processes instead of pods."""
