"""a2perf: run, measure and score reinforcement-learning submissions.

Importing this package loads nothing heavy; see ``a2perf.domains`` for the environments.
"""

__version__ = "1.0.0"
