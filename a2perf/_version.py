"""The version, for modules that must not import the whole package."""

__version__ = "1.0.0"
