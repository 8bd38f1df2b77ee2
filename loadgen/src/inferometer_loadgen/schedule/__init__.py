"""Which steps is a scenario made of, and when is each query of one due? Pure."""
