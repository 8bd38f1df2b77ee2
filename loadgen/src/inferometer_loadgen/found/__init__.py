"""What does the result document say of a step? Pure."""
