"""The folder of a run: its layout, how it is written, read, hashed and signed."""
