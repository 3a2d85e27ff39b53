"""Web navigation: tables of candidates, and many episodes in one call."""
