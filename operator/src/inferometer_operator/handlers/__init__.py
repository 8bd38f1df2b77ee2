"""What wakes the operator? The only place that knows kopf."""
