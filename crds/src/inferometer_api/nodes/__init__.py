"""Documents of what a node gives at best."""
