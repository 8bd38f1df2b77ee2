"""One page on some models: their operators, repeated patterns and weights."""
