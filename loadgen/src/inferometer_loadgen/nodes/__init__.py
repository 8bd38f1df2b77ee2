"""What the nodes of the servers did within a window, from their agents' samples. Pure."""
