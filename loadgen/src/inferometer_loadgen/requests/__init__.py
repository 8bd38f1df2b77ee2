"""What is sent, and what must come back?"""
