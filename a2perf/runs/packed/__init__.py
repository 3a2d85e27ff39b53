"""Runs packed into one canonical zip file, and signatures."""
