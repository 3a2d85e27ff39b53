"""Placement of a whole design at once: the environment, the benchmark that a placer gets, the exact verdict, reference
placers, and the competition profile ``macro_placement``.
"""
