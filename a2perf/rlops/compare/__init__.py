"""Comparing versions of an algorithm: curves, tables, aggregates, and a verdict."""
