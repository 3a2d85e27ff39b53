"""The names that gin files import: ``Submission``, its records, ``create_domain``, the decorator, and the enums.

``import a2perf.submission.submission_util`` is the first line of a gin file. It registers every configurable name and
does not import large packages.
"""

from __future__ import annotations

import gin

from a2perf.constants import BenchmarkDomain, BenchmarkMode, ReliabilityMetrics, SystemMetrics
from a2perf.domains.tfa.suite_gym import create_domain
from a2perf.metrics.trackers.emissions import track_emissions_decorator
from a2perf.submission.run_services import run_services
from a2perf.submission.settings import RECORDS, Submission

__all__ = ["Submission", "create_domain", "track_emissions_decorator"]

gin.configurable(module="a2perf.submission")(Submission)
for _name, _record in RECORDS.items():
    gin.configurable(_name, module="a2perf.submission")(_record)
for _service in run_services():
    gin.configurable(module=_service.__module__)(_service)
for _enum in (BenchmarkMode, BenchmarkDomain, ReliabilityMetrics, SystemMetrics):
    gin.constants_from_enum(_enum, module="a2perf.constants")
