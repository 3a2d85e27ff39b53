"""Event files and their series: written, checked, read fast and cached."""
