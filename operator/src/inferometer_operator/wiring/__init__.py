"""How do decisions, cluster and clock come together?"""
