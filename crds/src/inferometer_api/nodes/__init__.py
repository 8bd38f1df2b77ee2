"""What a node gives at best, as documents."""
