"""Which objects does a run have in the cluster? Pure builders, one an object."""
