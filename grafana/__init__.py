"""Dashboards and rules as code, of which the JSON is written that Grafana loads."""
