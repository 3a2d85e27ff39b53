"""The check of a submission folder: its files, its gin files, a brief training run and a few steps."""
