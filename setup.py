"""Thin shim: everything is declared in pyproject.toml."""

from setuptools import setup

setup()
