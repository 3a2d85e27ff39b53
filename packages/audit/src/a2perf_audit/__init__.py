"""Attacks an environment and its score with policies that should not win, and checks what a benchmark relies on."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from a2perf_audit.auditing import Audit, audit
    from a2perf_audit.bench import Finding, Subject

__all__ = ["Audit", "Finding", "Subject", "audit"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(importlib.import_module("a2perf_audit.auditing"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
