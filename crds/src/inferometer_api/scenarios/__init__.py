"""The meaning of every kind of scenario: its steps, figures, minimums, warnings and wording."""
