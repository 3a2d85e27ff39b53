"""Checks recorded results: rebuilds a run from its bundle, repeats it, and writes a verdict.

``selection`` has the bundles, ``rebuild`` the run specifications, ``comparison`` what is equal and what changed,
``statement`` the comparison of returns that are not bit-equal, ``reproduction`` the whole. The record of a verdict is
in ``a2perf.runs.reproduction``, because reports read it.
"""
