"""How do several processes drive one load, as one?"""
