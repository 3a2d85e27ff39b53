"""The submitted folder: its content, its problems and its identity."""
