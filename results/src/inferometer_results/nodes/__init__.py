"""What nodes give at best: wording, and the exchange with other tools."""
