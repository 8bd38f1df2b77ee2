"""How is load driven at a server, timed, and judged?"""
