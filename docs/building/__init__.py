"""Builds the documentation: stages the pages, writes those that come out of the code, draws pictures, runs Sphinx."""
