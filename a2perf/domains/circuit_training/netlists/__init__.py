"""Netlists and placement files: scanned, read and cached."""
