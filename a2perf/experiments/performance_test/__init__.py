"""Performance tests: k of n runs of a training must reach a value within a budget."""
