"""What does a person type, and what do they get?"""
