"""The API of Inferometer: the documents that all components exchange."""
