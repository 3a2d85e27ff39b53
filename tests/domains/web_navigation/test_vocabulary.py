"""Token tables: fixed numbers, growth, sharing, saving, corrupt files."""

import multiprocessing
import pickle
import threading

import pytest

from a2perf.domains.web_navigation.page import vocabulary as v
from a2perf.errors import ConfigError
from tests.commands import run_python

KINDS = (v.LockedThreadedVocabulary, v.UnlockedVocabulary)


def test_tokens_of_a_text():
    for given, tokens in (
        ("john@email.com", "john @ email com"),
        ("form-control", "form - control"),
        ("NO_CLASS", "no_class"),
        (False, "false"),
        ("10/02/2020", "10 / 02 / 2020"),
        ("San Francisco Airport (SFO)", "san francisco airport ( sfo )"),
    ):
        assert v.tokenize(given) == tokens.split()
    assert v.tokenize(None) == v.tokenize("") == v.tokenize("None") == []


def test_numbers_do_not_depend_on_the_hash_seed():
    code = "from a2perf.domains.web_navigation.page.vocabulary import built_in_words; print(built_in_words())"
    texts = {run_python(code, check=True, env={"PYTHONHASHSEED": seed}).stdout for seed in ("1", "2")}
    assert len(texts) == 1
    assert "john" in texts.pop()


@pytest.mark.parametrize("kind", KINDS)
def test_new_words_get_consecutive_numbers_behind_the_built_in_ones(kind):
    words = kind()
    assert (words["NULL"], words["OOV"]) == (0, 1)
    start = len(words)
    assert start == len(v.built_in_words())
    words.add_to_vocabulary(["alpha", "beta", "alpha", "john"])
    assert (words["alpha"], words["beta"], len(words)) == (start, start + 1, start + 2)
    assert words.lookup("gamma") == start + 2
    copy = pickle.loads(pickle.dumps(words))
    assert copy.save() == words.save()
    copy.add_to_vocabulary(["delta"])
    assert "delta" not in words


def test_a_full_table_raises_and_looks_up_as_unknown():
    words = v.UnlockedVocabulary(max_vocabulary_size=len(v.built_in_words()))
    with pytest.raises(v.VocabularyOverflowError, match="'alpha'"):
        words.add_to_vocabulary(["alpha"])
    assert words.lookup("alpha") == words["OOV"]
    with pytest.raises(ConfigError, match="max_vocabulary_size is 50"):
        v.UnlockedVocabulary(max_vocabulary_size=50)


def test_threads_that_share_a_table_agree():
    words = v.LockedThreadedVocabulary()
    start = len(words)
    threads = [
        threading.Thread(target=lambda n=n: words.add_to_vocabulary([f"w{i}" for i in range(n, n + 200)]))
        for n in range(0, 400, 50)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert sorted(words.save().values()) == list(range(start + 550))


def test_a_view_of_a_shared_table_sees_what_others_add():
    shared = v.LockedThreadedVocabulary()
    one, other = v.Vocabulary(shared), v.Vocabulary(shared)
    one.add_to_vocabulary(["alpha"])
    assert other["alpha"] == shared["alpha"]
    assert other.local_vocab == other.global_vocab == shared.get_vocabulary() == shared.get_global_vocabulary()


def _add_alpha(words):
    words.add_to_vocabulary(["alpha"])


def test_processes_share_a_table_through_a_manager():
    words = v.create_locked_vocab(multiprocessing=True)
    process = multiprocessing.get_context("fork").Process(target=_add_alpha, args=(words,))
    process.start()
    process.join(300)
    assert words["alpha"] == len(v.built_in_words())
    assert type(words.save()) is dict


def test_restoring_takes_over_the_numbers_and_moves_what_is_in_the_way():
    words = v.UnlockedVocabulary()
    saved = {"NULL": 1, "OOV": 0, "alpha": 7}
    words.restore(saved)
    assert {word: words[word] for word in saved} == saved
    numbers = list(words.save().values())
    assert len(set(numbers)) == len(numbers)
    assert not words.is_built_in


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not a vocabulary file"),
        ("[1]", "must be a table, got list"),
        ('{"a": "b"}', "'a': 'b' is not a word and its number"),
        ('{"a": 3, "b": 3}', "'b' and 'a' have the same number 3"),
        ('{"a": 15000}', "outside 0 to 14999"),
    ],
)
def test_a_corrupt_file_is_refused(tmp_path, text, message):
    path = tmp_path / "vocabulary.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        v.read_vocabulary(path)
