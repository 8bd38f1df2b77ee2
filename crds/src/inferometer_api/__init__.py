"""What is asked of a measurement, and what was found: the documents every component shares."""
