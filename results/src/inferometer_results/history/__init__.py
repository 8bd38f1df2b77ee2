"""The history of a figure: its series over comparable runs, and the change points in it."""
