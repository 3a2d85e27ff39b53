"""Attacks an environment and its score with policies that should not win, and checks what a benchmark relies on."""

from a2perf_audit.audit import Audit, Finding, Subject, audit

__all__ = ["Audit", "Finding", "Subject", "audit"]
