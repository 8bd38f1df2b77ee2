"""Words for what nodes give at best, and the exchange with other tools."""
