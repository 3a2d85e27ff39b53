"""Environments as a server: sessions for clients that speak OpenEnv or MCP.

The server never lets a client name a file, a module or a browser: clients choose among tasks that the operator serves.
"""

from __future__ import annotations

from a2perf_serve.errors import ServingError

__all__ = ["ServingError"]
