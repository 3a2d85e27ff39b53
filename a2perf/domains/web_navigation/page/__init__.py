"""A page as data: its primitives, nodes, layout, words and HTML."""
