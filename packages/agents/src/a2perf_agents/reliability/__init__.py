"""Reliability of a policy: consistency, robustness and predictability."""
