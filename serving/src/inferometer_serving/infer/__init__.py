"""Requests, tensors and answers, whatever carries them."""
