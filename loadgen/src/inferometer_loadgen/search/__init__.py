"""Statistics over several measurements: peak, knee, repeats. Pure."""
