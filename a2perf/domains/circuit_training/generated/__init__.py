"""Designs: generated ones and those of folders."""
