"""Results for people: figures, wording, the HTML report and the comparison of two results."""
