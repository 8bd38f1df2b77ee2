"""What the explorer shows of many results: fronts, scaling, outliers, costs, merged latencies."""
