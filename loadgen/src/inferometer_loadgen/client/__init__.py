"""What becomes of the load generator itself while it measures?"""
