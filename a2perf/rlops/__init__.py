"""Experiments: a store of run bundles, the benchmark matrix that fills it, tags, and what is concluded from them.

``Store`` is a folder of runs, ``RunQuery`` says which of them are meant. Importing this package is cheap.
"""
