"""Packaged training scripts for performance and smoke tests that configure an algorithm instead of a script."""
