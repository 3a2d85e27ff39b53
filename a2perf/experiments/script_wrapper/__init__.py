"""Wraps a plain script with ``main(env=...)``: records, evaluates and films it without changing it."""
