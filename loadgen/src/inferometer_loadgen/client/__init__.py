"""The client process: its machine, its timers, and what disturbs it."""
