"""Tasks around a model: steps before and after it, data sets, and measures of accuracy."""
