"""Wraps a plain script with ``main(env=...)``: records, tests and films it without a change to it."""
