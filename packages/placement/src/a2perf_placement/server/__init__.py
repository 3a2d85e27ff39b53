"""``a2perf-plc``: serves ``PlacementCost`` to programs written for circuit training's ``plc_wrapper_main``.

A client listens on a Unix socket and starts the program, which connects, answers requests in JSON until the connection
closes, and ends. ``command`` reads the flags, ``session`` answers one client, ``requests`` cuts the stream into
requests, ``methods`` lists what can be called, ``replies`` writes the answers.
"""
