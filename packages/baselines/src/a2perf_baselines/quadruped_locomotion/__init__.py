"""Quadruped locomotion: training runs, an adapter for their policies, and many robots in one call."""
