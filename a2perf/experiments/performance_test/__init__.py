"""Performance tests: k of n training runs must reach a value within a budget."""
