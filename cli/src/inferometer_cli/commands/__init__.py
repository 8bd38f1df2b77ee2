"""Which commands are there? One module each."""
