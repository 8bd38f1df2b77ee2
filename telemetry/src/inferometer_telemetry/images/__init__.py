"""Removal of unused serving images from a node, for cold starts that pull them."""
