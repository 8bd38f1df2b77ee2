"""What the nodes of the servers did within a window, by their agents' samples. Pure."""
