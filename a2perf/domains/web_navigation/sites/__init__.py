"""Websites: designs, generator and their tables."""
