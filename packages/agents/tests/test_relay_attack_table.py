"""The page of tested attacks lists every request that the tests send to the relay, with its answer."""

from __future__ import annotations

from pathlib import Path

from packages.agents.tests.test_relay_attacks import RAW, REQUESTS


def test_the_page_of_attacks_lists_the_requests_and_answers(repository: Path) -> None:
    text = (repository / "docs" / "reference" / "attacks.md").read_text(encoding="utf-8")
    lines = text.partition("## Requests to the relay")[2].splitlines()
    rows = [line[2:-2].split(" | ") for line in lines if line.startswith("| ")]
    answers = {row[0]: row[1] for row in rows}
    assert {what: answers.get(what) for what in REQUESTS} == {
        what: f"{status} `{code}`" for what, (_, _, _, status, code) in REQUESTS.items()
    }
    for what, (_, status) in RAW.items():
        assert answers[what].startswith(status.decode() or "closed")
