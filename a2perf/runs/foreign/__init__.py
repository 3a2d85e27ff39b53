"""Runs and tables that other software recorded."""
