"""A submission that attacks its evaluator."""


def train():
    """Trains nothing."""
