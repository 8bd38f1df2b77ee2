"""Forms in which a model can be kept: how fast each one loads, and what servers share of it."""
