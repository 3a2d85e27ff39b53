"""Smoke tests: every algorithm and submission runs in every environment, independent of its performance."""
