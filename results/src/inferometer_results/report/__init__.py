"""The HTML report: one file that opens offline."""

from inferometer_results.report.page import render_report

__all__ = ["render_report"]
