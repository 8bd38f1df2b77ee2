"""One model: its file, its session, and what it computes."""
