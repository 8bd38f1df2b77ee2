"""HTTP/1.1: connections, heads, bodies and the endpoints behind them."""
