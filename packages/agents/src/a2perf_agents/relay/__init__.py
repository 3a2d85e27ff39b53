"""The relay between a submission and a language model: the participant's only way to a model.

``access`` reads the settings. ``handle`` is the evaluator's end: it starts the relay as a separate process, which keeps
its work off the evaluator's clock, and passes it the listening socket of each participant process. That socket belongs
to the participant's network namespace, so its loopback leads to the relay and to nothing else. Everything else runs in
the relay: ``process`` (main), ``server`` (requests of the participant), ``exchange`` (one call), ``upstream`` (requests
to the model, retries, limits), ``connections`` (HTTP to the model server), ``call_gate`` (calls
at the same time to a server that limits their rate), ``budget`` and ``call_journal``.
"""
