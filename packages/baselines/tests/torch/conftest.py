"""The tests of this folder import PyTorch when they are collected, so they are collected only where it is installed."""

import importlib.util

collect_ignore_glob = [] if importlib.util.find_spec("torch") else ["test_*.py"]
