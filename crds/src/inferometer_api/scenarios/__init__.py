"""What every kind of scenario means: its steps, figures, minimums, warnings and wording."""
