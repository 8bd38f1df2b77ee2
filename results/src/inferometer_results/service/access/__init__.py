"""Who may send which request."""
