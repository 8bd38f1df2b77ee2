"""Verdict of a scenario: the rules, the findings that violate them, VALID or INVALID. Pure."""
