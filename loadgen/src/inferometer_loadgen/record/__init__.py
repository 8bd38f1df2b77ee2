"""How is what happens counted, in memory that does not grow? Pure."""
