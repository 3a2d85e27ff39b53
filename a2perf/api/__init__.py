"""The Python API: ``import a2perf`` gives these functions and types; nothing of a2perf is only in the command line.

``evaluation`` runs policies and submissions, ``results`` and ``scoring`` read what was recorded, ``comparing`` compares
versions, ``table`` holds the tables. ``a2perf.__init__`` lists the public names and imports each on first use.
"""
