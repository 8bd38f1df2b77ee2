"""Checks of the verdict: one function per rule of `rule_table.RULES`, grouped by what they judge.

A check yields one `Violation` per fault it finds, and nothing if the rule is kept.
"""
