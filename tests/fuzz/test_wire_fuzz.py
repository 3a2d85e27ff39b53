"""100,000 mutated replies: each is accepted as an element of its space, or refused by a typed error."""

from __future__ import annotations

import warnings
from collections import Counter

import numpy as np
import pytest

from tests.fuzz.wire import check, mutations, seeds

COUNT = 100_000


@pytest.fixture(autouse=True)
def strict():
    """Lets a warning of numpy be an error, which a library that a task imports can ask for too."""
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", module="gymnasium")
        yield


def test_every_seed_has_its_verdict() -> None:
    assert Counter(map(check, seeds())).keys() == {"wire", "report", "answer", "action", "accepted"}


def test_no_mutated_reply_raises_anything_else() -> None:
    found: Counter[str] = Counter()
    for data in mutations(COUNT, seed=13):
        try:
            found[check(data)] += 1
        except Exception as error:
            raise AssertionError(f"reply {data.hex()}") from error
    assert sum(found.values()) == COUNT
    assert min(found[verdict] for verdict in ("wire", "report", "answer", "action", "accepted")) > 10
