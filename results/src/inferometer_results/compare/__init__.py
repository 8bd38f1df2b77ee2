"""What differs between two results, and is the difference real? All of it is pure."""
