"""Circuit training: tables of candidates."""
