"""Metrics: pure scoring of recorded data, and the trackers that record what a live run costs.

Scoring never imports ``trackers``; importing this package loads neither.
"""
