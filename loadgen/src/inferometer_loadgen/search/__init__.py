"""What do several measurements say together: a peak, a knee, an interval? Pure; no clock."""
