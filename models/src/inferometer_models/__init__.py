"""Which models are built in, and where are their graphs?"""
