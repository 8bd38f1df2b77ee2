"""What is told of the work while it goes on, and to whom?"""
