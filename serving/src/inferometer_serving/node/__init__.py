"""What this node gives at best: memory, storage, loopback, clock and matrix products."""
