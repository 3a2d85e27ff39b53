"""The word list holds: no phrase of ``docs/building/words.py`` in package, pages, templates, examples or messages."""

from __future__ import annotations

import re

import pytest

from a2perf.errors import install_hint
from docs.building import words


def test_no_listed_phrase_is_used() -> None:
    places = [str(place) for place in words.places(words.texts())]
    assert not places, "\n" + "\n".join(places)


def test_package_pages_templates_and_landing_page_are_read() -> None:
    read = words.texts()
    for name in ("README.md", "Makefile", "a2perf/errors.py", "docs/index.md", "templates/submission/README.md"):
        assert name in read
    assert any(name.startswith("a2perf/report/templates/") for name in read)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("# reads the file anew", "a-n-e-w"),
        ("It says\n    # whether it ran.", "says whether"),
        ("It is no race.", "is no"),
        ("ten joules a step", "units a"),
        ("copied, so that it survives", "connectives"),
        ("class Shown:", "class names"),
    ],
)
def test_a_listed_phrase_is_found(text: str, name: str) -> None:
    assert name in {phrase.name for phrase in words.PHRASES if list(phrase.places(text))}


@pytest.mark.parametrize(
    "text",
    [
        "It is no longer there.",
        "a training script",
        "one run per seed",
    ],
)
def test_plain_sentences_pass(text: str) -> None:
    assert not [phrase.name for phrase in words.PHRASES if list(phrase.places(text))]


_FROM_INDEX = re.compile(r"pip install (?:[^`\n|&;]*?[ '\"])?['\"]?a2perf(?:\[[^\]]*\])?(?=[ '\"`\n]|$)(?! @)")


def test_no_text_installs_the_foreign_project_that_has_this_name_on_the_index() -> None:
    for bad in ("pip install a2perf", "pip install -q 'a2perf[all]'", "python -m pip install numpy a2perf"):
        assert _FROM_INDEX.search(bad)
    for good in ("pip install -e '.[all]'", "pip install ./a2perf", "pip install 'a2perf[all] @ git+https://x/a2perf'"):
        assert not _FROM_INDEX.search(good)
    texts = {name: (words.REPOSITORY / name).read_text(encoding="utf-8") for name in words.texts(skipped=())}
    found = {
        name: hits
        for name, text in texts.items()
        if name != "tests/docs/test_words.py" and (hits := _FROM_INDEX.findall(text))
    }
    assert not found
    assert install_hint("slurm", "ray") == "pip install -e '.[slurm,ray]'"
