"""Figures of reports and comparisons."""
