"""Optional helpers for submissions to this domain: training runs and an adapter for trained policies.

They run in the participant process, on top of ``a2perf.learning`` and the adapters, and nothing else of a2perf imports
them. Importing this package loads no framework.
"""
