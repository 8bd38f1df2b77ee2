"""Fleet: several worker processes that drive one load together."""
