"""Programs that other projects' servers load next to the model; nothing here imports them."""
