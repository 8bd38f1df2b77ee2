"""Who drives a step, and which requests are tried before it?"""
