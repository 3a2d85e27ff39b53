"""Which runs a path or a store holds: finding, index and groups of seeds."""
