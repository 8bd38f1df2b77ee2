"""Control plane of the servers: addresses, readiness, descriptions."""
