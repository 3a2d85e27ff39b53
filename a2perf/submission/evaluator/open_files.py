"""The limit on open files, which many episodes at the same time can reach; the relay and participants inherit it."""

from __future__ import annotations

import os
import resource

from a2perf.constants import BenchmarkMode
from a2perf.errors import ConfigError
from a2perf.submission.settings import Submission

BASE, PER_EPISODE = 256, 16
"""Files of a run without concurrent episodes, and of each one: sockets, shared memory, logs, the kernel's clock."""


def allow_open_files(settings: Submission) -> None:
    """Raises the soft limit of this process, if the concurrent episodes of a run need it.

    Raises:
        ConfigError: the user may not open so many files.
    """
    tasks = settings.num_parallel_tasks or max(1, (os.cpu_count() or 1) // 2)
    episodes = settings.concurrent_episodes
    if settings.mode is BenchmarkMode.GENERALIZATION and episodes > 1:
        episodes *= tasks
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = BASE + PER_EPISODE * episodes
    if episodes == 1 or soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise ConfigError(
            f"{episodes} concurrent episodes need {wanted} open files, and this user may open {hard}",
            hint=f"use --concurrent-episodes {max(1, (hard - BASE) // PER_EPISODE)} or less, or raise `ulimit -Hn`",
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
