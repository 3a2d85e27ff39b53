"""Checks recorded results: rebuilds a run from its bundle, repeats it, and writes a verdict about its claims.

``claims`` has the grammar and the quantities, ``selection`` the bundles, ``rebuild`` the run specifications,
``comparison`` what is equal and what changed, ``judgement`` the verdict, ``reproduction`` the whole. The record of a
verdict is in ``a2perf.runs.bundles.reproduction``, because reports read it.
"""
