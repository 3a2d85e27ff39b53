"""The guard: a small process between the evaluator and the participant, so that nothing outlives the evaluator.

It starts one child under limits and stays its parent, ends the child's whole tree when the evaluator asks or dies, and
copies the child's output into capped files. ``main`` is the process, ``tree`` finds and ends processes, ``streams``
captures output, ``accounts`` reads control groups, ``arrival`` takes descriptors from outside a container.

The guard runs without a2perf on its search path (``-I -S``, this package's parent appended), since its start is part
of every run: standard library only, relative imports, and only modules that load in a millisecond. That is why it says
``_signal`` and ``marshal`` (the evaluator is trusted) where others would say ``signal`` and ``json``, and does without
``typing`` and ``contextlib``. Compiled once, it starts faster than a script, which Python compiles anew every time.
"""
