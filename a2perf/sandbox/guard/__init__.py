"""The guard: a small process between evaluator and participant. No participant process outlives the evaluator.

It starts one child under limits and stays its parent, ends the child's whole tree when the evaluator asks or dies, and
copies the child's output into capped files. ``main`` is the process, ``tree`` finds and ends processes, ``streams``
captures output, ``accounts`` reads control groups, ``arrival`` receives descriptors in a container.

Its start is part of every run, so it has to load in milliseconds: standard library only, relative imports, no a2perf on
the search path (``-I -S``, with the parent of this package appended). For the same reason it imports ``_signal`` rather
than ``signal``, ``marshal`` rather than ``json`` (the evaluator is trusted), and neither ``typing`` nor ``contextlib``.
A package starts faster than a script, because Python caches its byte code.
"""
