"""Who is measured: what servers say of themselves, how they are reached?"""
