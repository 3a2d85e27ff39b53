"""Runs submissions: the contract, the participant process, the evaluator and its modes.

Nothing is imported here: the participant process loads only ``a2perf.submission.participant.worker``.
"""
