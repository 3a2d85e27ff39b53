"""Trainings that the performance and smoke tests start for people who configure an algorithm and write no script."""
