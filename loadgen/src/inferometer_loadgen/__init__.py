"""Load generator: drives load at a server, times the answers, and judges the result."""
