"""Reliability of training in its two profiles, and the curves that it is computed from."""
