"""Episodes of a run: planned, played, accounted and recorded."""
