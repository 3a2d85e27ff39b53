"""What this machine supports and what is missing: the probes of ``a2perf doctor``."""
