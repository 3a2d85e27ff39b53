"""Comparing versions of an algorithm: curves, tables, and a verdict."""
