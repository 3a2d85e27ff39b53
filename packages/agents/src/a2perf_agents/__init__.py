"""Language models for submissions: a relay with budgets and a journal of calls, replay, transcripts and costs.

Models reach a run through the entry points of ``a2perf.run_options``; see README.md of the distribution.
"""
