"""The version, for modules that must not import the whole package."""

__version__ = "1.0.0"

PROJECT_URL = "https://github.com/a2perf/a2perf"
