"""What pages and API show, as data."""
