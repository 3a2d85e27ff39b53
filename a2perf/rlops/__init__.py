"""Experiments: a store of run bundles, the benchmark matrix that fills it, tags, and what is concluded from them.

``Store`` is a folder of runs, ``RunQuery`` selects runs. Importing this package is cheap.
"""
