"""The results of a suite: its matrix, its page, and its earlier executions in the store."""
