"""Placements in reports: cost by part, maps, legality, and cost against time and energy."""
