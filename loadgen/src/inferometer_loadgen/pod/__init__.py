"""How does a load generator in a pod tell what it does, and hand over what it found?"""
