"""The pages of the explorer."""
