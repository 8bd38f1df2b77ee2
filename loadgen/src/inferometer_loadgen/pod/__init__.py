"""Load generator in a pod: HTTP endpoint, log, and delivery of the result."""
