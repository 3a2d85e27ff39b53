"""Leaderboards: a static site built from a folder of bundles, without a server, a network or participants' code.

``write_leaderboard`` writes it. An entry is a submission on a task with all its seeds; entries are scored from their
files and compared only under equal conditions.
"""

from __future__ import annotations

from a2perf.report.leaderboard.entries import Trust
from a2perf.report.leaderboard.ranking import Board
from a2perf.report.leaderboard.scoring import Entry, References, Score
from a2perf.report.leaderboard.writing import LeaderboardRecord, WrittenLeaderboard, write_leaderboard

__all__ = [
    "Board",
    "Entry",
    "LeaderboardRecord",
    "References",
    "Score",
    "Trust",
    "WrittenLeaderboard",
    "write_leaderboard",
]
