"""Trackers sample the cost of a live participant process tree from the evaluator's process.

``sampler.Sampler`` runs one thread and one loop over the trackers and returns a tracking report;
``emissions.track_emissions_decorator`` makes codecarbon configurable through gin.
"""
