"""Documents about the layers of models: what an engine runs, and how long each layer takes."""
