"""How are the container images built, pushed and kept? `make images`, docs/how-to/images.md.

The standard library is all it needs.
"""
