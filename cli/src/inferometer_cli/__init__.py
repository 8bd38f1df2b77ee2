"""The `inferometer` command line, also a kubectl plugin."""
