"""Tasks around the model in the load generator: samples to requests, replies to predictions."""
