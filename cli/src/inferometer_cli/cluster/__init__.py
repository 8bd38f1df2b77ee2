"""What does a cluster say of a run, and what can be asked of it?"""
