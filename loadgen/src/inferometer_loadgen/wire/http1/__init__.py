"""HTTP/1.1 client: one connection, its reply parser and its reply template."""
