"""Fetcher: brings models, inputs and traces onto this machine, and checks them."""
