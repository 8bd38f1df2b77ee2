"""Whether figures can be trusted: rules, what breaks them, and the verdict. Pure."""
