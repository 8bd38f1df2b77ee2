"""Computes views of many results: fronts, scaling, outliers, costs, merged latencies."""
